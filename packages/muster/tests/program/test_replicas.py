"""Which values share a collective."""

import math

import pytest

from muster.program._replicas import packs
from recorded import cases

BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "int32": 4, "int64": 8, "bool": 1}


def is_ours(case):
    """Arrays have known shapes and numeric types; a wrong size is refused where options are built."""
    asked = case["input"]
    known = all(
        t["dtype"] in BYTES and None not in (t["shape"] if t["shape"] is not None else [None])
        for t in asked.get("tensors", ())
    )
    return case["name"].startswith("group/") and known and "error" not in case["expect"]


@pytest.mark.parametrize("case", cases("communication_packs", is_ours))
def test_packs_are_those_of_tensorflow(case):
    tensors = case["input"]["tensors"]
    sizes = [math.prod(t["shape"]) * BYTES[t["dtype"]] for t in tensors]
    assert packs(sizes, case["input"]["bytes_per_pack"]) == case["expect"]["packs"]
