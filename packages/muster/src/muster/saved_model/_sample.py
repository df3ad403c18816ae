"""Make dummy inputs for a signature."""

import math
from typing import Any

import numpy as np

from muster._arrays import dtype_named
from muster.data import BytesList, Example, Feature, Features, FloatList, Int64List
from muster.saved_model._manifest import ParseRecord, SignatureRecord, TensorRecord

Array = np.ndarray[Any, Any]


def sample_inputs(record: SignatureRecord, rows: int) -> dict[str, Array]:
    """Return inputs by name: zeros and empty text, or Examples and lines with them.

    Args:
        record: The signature.
        rows: The size of the first axis; other free sizes are 1.
    """
    return {name: _sample(name, tensor, record, rows) for name, tensor in record.inputs.items()}


def _sample(name: str, tensor: TensorRecord, record: SignatureRecord, rows: int) -> Array:
    shape = tuple(
        size if size is not None else rows if axis == 0 else 1 for axis, size in enumerate(tensor.shape)
    )
    dtype = dtype_named(tensor.dtype)
    if dtype.kind != "O":
        return np.zeros(shape, dtype)
    parsed = [each.parse for each in record.features.values() if each.input == name and each.parse]
    text: Array = np.empty(shape, object)
    text.fill(_text(parsed))  # np.full drops zeros
    return text


def _text(parsed: list[ParseRecord]) -> bytes:
    """Return text of which features can be read: a line of zeros, or an Example."""
    for parse in parsed:
        if parse.csv is not None:
            fields = parse.csv.fields or 1 + max(int(each.key) for each in parsed)
            return parse.csv.field_delim.join(["0"] * fields).encode()
    features = {parse.key: _feature(parse) for parse in parsed}
    return Example(Features(features)).SerializeToString() if features else b""


def _feature(parse: ParseRecord) -> Feature:
    size = math.prod(parse.shape)
    if dtype_named(parse.dtype).kind in "OSU":
        return Feature(bytes_list=BytesList([b""] * size))
    if dtype_named(parse.dtype).kind == "f":
        return Feature(float_list=FloatList([0.0] * size))
    return Feature(int64_list=Int64List([0] * size))
