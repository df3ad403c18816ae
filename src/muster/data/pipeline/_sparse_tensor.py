"""``tf.SparseTensor``: the values of features that each example has as many of as it likes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from muster._errors import DatasetError


@dataclass(frozen=True, eq=False)
class SparseTensor:
    """Values at some places of an array whose other places are empty.

    Sparse tensors are for the host: feature columns make padded arrays of them for the step.

    Args:
        indices: The places, int64 of shape (values, rank), in the order of the array's elements; others are
            sorted.
        values: The values, of shape (values,): numbers or text.
        dense_shape: The shape of the array.

    Raises:
        ValueError: The shapes of the three do not fit, or an index lies outside of the array.

    Source: ``SparseTensor`` (tensorflow/python/framework/sparse_tensor.py).
    """

    indices: Any
    values: Any
    dense_shape: Any

    def __post_init__(self) -> None:
        values = self.values
        if isinstance(values, list | tuple) and any(isinstance(value, bytes) for value in values):
            values = np.array(values, object)  # NumPy's bytes would lose zeros at their ends
        values = np.asarray(values)
        dense_shape = np.asarray(self.dense_shape, np.int64)
        indices = np.asarray(self.indices, np.int64)
        if not indices.size:
            indices = indices.reshape(0, len(dense_shape))
        if indices.shape != (len(values), dense_shape.size) or values.ndim != 1 or dense_shape.ndim != 1:
            raise ValueError(
                "A SparseTensor has values of shape (n,), indices of shape (n, rank) and a "
                "dense_shape of shape "
                f"(rank,), got {values.shape}, {indices.shape} and {dense_shape.shape}."
            )
        if ((indices < 0) | (indices >= dense_shape)).any():
            raise ValueError(
                f"A SparseTensor has indices from 0 up to its dense_shape {dense_shape.tolist()}, "
                f"got {indices.min(0).tolist()} to {indices.max(0).tolist()}."
            )
        places = indices @ _strides(dense_shape)
        if (places[1:] < places[:-1]).any():
            order = np.argsort(places, kind="stable")
            indices, values = indices[order], values[order]
        for name, array in (("indices", indices), ("values", values), ("dense_shape", dense_shape)):
            object.__setattr__(self, name, array)

    def with_values(self, values: np.ndarray[Any, Any]) -> "SparseTensor":
        """Return other values at the same places, unchecked."""
        return self.of_checked(self.indices, values, self.dense_shape)

    @classmethod
    def of_checked(cls, indices: Any, values: Any, dense_shape: Any) -> "SparseTensor":
        """Return a sparse tensor of arrays that are known to fit: to check them takes as long as to hash."""
        tensor = object.__new__(cls)
        for name, array in (("indices", indices), ("values", values), ("dense_shape", dense_shape)):
            object.__setattr__(tensor, name, array)
        return tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return tuple(self.dense_shape.tolist())

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of the values."""
        dtype: np.dtype[Any] = self.values.dtype
        return dtype

    def rows(self) -> list["SparseTensor"]:
        """Return the entries of the first axis."""
        ends = np.searchsorted(self.indices[:, 0], np.arange(self.shape[0]), side="right")[:-1]
        places = np.split(self.indices[:, 1:], ends) if self.shape[0] else []
        return [
            self.of_checked(at, values, self.dense_shape[1:])
            for at, values in zip(places, np.split(self.values, ends), strict=False)
        ]

    def to_dense(self, default_value: Any = None) -> np.ndarray[Any, Any]:
        """Return the array, with a value for its empty places: by default 0, or empty text.

        Source: ``to_dense`` (tensorflow/python/ops/sparse_ops.py).
        """
        if default_value is None:
            default_value = {"U": "", "S": b"", "O": b""}.get(self.dtype.kind, 0)
        dense = np.full(self.shape, default_value, self.dtype)
        dense[tuple(self.indices.T)] = self.values
        return dense


def stack_sparse(tensors: Sequence[SparseTensor]) -> SparseTensor:
    """Stack sparse tensors along a new first axis; other axes get the largest size.

    Raises:
        DatasetError: They differ in rank or type, or there is something else among them.
    """
    first = tensors[0]
    if not all(isinstance(tensor, SparseTensor) for tensor in tensors):
        raise DatasetError("cannot batch sparse tensors with other values; all elements must have them.")
    for tensor in tensors:
        kinds = {tensor.dtype.kind, first.dtype.kind}
        if len(tensor.shape) != len(first.shape) or (len(kinds) > 1 and not kinds <= set("USO")):
            raise DatasetError(
                "cannot batch sparse tensors of different ranks or types: got shape "
                f"{first.shape} of {first.dtype}, and {tensor.shape} of {tensor.dtype}."
            )
    rows = np.repeat(np.arange(len(tensors)), [len(tensor.values) for tensor in tensors])
    indices = np.concatenate([tensor.indices for tensor in tensors])
    return SparseTensor(
        np.concatenate([rows[:, None], indices], axis=1),
        np.concatenate([tensor.values for tensor in tensors]),
        (len(tensors), *np.max([tensor.dense_shape for tensor in tensors], axis=0)),
    )


def _strides(dense_shape: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return how many elements of the array lie between neighbours of each axis."""
    return np.append(np.cumprod(dense_shape[:0:-1])[::-1], 1)[: dense_shape.size].astype(np.int64)
