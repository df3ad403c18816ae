"""Examples to serialize and parse."""

from typing import Any

import numpy as np

from muster.data import BytesList, Example, Feature, Features, FloatList, Int64List


def example(**features: Any) -> bytes:
    kinds = {"bytes": BytesList, "float": FloatList, "int64": Int64List}
    made = {}
    for name, values in features.items():
        kind = name.split("_")[0]
        made[name] = Feature(**{f"{kind}_list": kinds[kind](values)}) if kind in kinds else Feature()
    return Example(Features(made)).SerializeToString()


MANY = list(range(-200, 200)) + [2**63 - 1, -(2**63)]


ONE = {
    "bytes_a": [b"\0\xff", b""],
    "float_a": [1.5, -2.0, np.float32(0.1)],
    "float_none": [],
    "int64_a": [7],
    "int64_many": MANY,
    "nothing": [],
    "a name of " + 200 * "x": [],
}
