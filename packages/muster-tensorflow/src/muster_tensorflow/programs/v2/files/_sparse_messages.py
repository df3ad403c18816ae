"""Sparse tensors as bytes: ``tf.io.serialize_sparse`` and its like, in messages that TensorFlow reads.

Source: tensorflow/python/ops/sparse_ops.py.
"""

from typing import Any

import numpy as np

from muster.data import SparseTensor
from muster_tensorflow.library.ops._arrays import DTypeLike
from muster_tensorflow.library.ops._operation import operation
from muster_tensorflow.library.ops._tensor_proto import parse_tensor, serialize_tensor


@operation
def serialize_sparse(sp_input: SparseTensor, out_type: DTypeLike = None, name: str | None = None) -> Any:
    """Return a sparse tensor's indices, values and shape as three texts of bytes."""
    return _messages(sp_input.indices, sp_input.values, sp_input.dense_shape)


@operation
def serialize_many_sparse(sp_input: SparseTensor, out_type: DTypeLike = None, name: str | None = None) -> Any:
    """Return those of each row of a sparse tensor, as an array of shape (rows, 3)."""
    indices, values = np.asarray(sp_input.indices), np.asarray(sp_input.values)
    rows, *shape = np.asarray(sp_input.dense_shape).tolist()
    found = np.empty((rows, 3), object)
    for row in range(rows):
        mine = indices[:, 0] == row
        found[row] = _messages(indices[mine, 1:], values[mine], shape)
    return found


@operation
def deserialize_many_sparse(
    serialized_sparse: Any, dtype: Any, rank: int | None = None, name: str | None = None
) -> SparseTensor:
    """Return the sparse tensor whose rows are those of an array of shape (rows, 3).

    Args:
        serialized_sparse: What `serialize_many_sparse` returns, or rows that `serialize_sparse` returns.
        dtype: The values' dtype.
        rank: The number of axes of a row; None for any.
        name: Unused.

    Raises:
        ValueError: The array has another shape, or rows another number of axes.
        DatasetError: It has no such texts, or those of another dtype.
    """
    texts = np.asarray(serialized_sparse, object)
    if texts.ndim != 2 or texts.shape[1] != 3:
        raise ValueError(f"Serialized sparse should have 3 columns but has shape {texts.shape}.")
    if not len(texts):
        raise ValueError("Must have at least 1 serialized SparseTensor, but input matrix has 0 rows.")
    indices, values, shapes = [], [], []
    for row, (places, numbers, shape) in enumerate(texts.tolist()):
        place = parse_tensor(places, np.int64)
        indices.append(np.insert(place, 0, row, axis=1))
        values.append(parse_tensor(numbers, np.dtype(dtype)))
        shapes.append(parse_tensor(shape, np.int64))
        if len(shapes[-1]) != (wanted := len(shapes[0]) if rank is None else rank):
            raise ValueError(f"Rank of a serialized SparseTensor should be {wanted}, got {len(shapes[-1])}.")
    size = [len(shapes), *np.max(shapes, axis=0)]
    return SparseTensor(np.concatenate(indices), np.concatenate(values), size)


def _messages(indices: Any, values: Any, shape: Any) -> Any:
    found = np.empty(3, object)
    parts = (np.asarray(indices, np.int64), np.asarray(values), np.asarray(shape, np.int64))
    found[:] = list(map(serialize_tensor, parts))
    return found
