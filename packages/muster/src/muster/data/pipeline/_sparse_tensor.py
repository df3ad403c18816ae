"""``tf.SparseTensor``: values, their indices, and the dense shape."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from muster._errors import DatasetError
from muster._frontend import frontend


class SparseTensor:
    """Values at some places of an array whose other places are empty.

    Feature columns make padded arrays of them for the step. The places are known on the host, also while a
    step is traced that computes the values.

    Args:
        indices: The places, int64 of shape (values, rank), in the order of the array's elements; others are
            sorted.
        values: The values, of shape (values,): numbers or text.
        dense_shape: The shape of the array.

    Raises:
        ValueError: The shapes of the three do not fit, or an index lies outside of the array.

    Source: ``SparseTensor`` (tensorflow/python/framework/sparse_tensor.py).
    """

    __slots__ = ("__weakref__", "_dense_shape", "_indices", "_values")
    __array_ufunc__ = None  # NumPy's arrays leave operators to the sparse tensor

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        if isinstance(values, list | tuple) and any(isinstance(value, bytes) for value in values):
            values = np.array(values, object)  # NumPy's bytes would lose zeros at their ends
        if isinstance(values, np.ndarray) or not hasattr(values, "dtype"):
            values = np.asarray(values)
        dense_shape = np.asarray(dense_shape, np.int64)
        indices = np.asarray(indices, np.int64)
        if not indices.size:
            indices = indices.reshape(0, len(dense_shape))
        if (
            indices.shape != (len(values), dense_shape.size)
            or len(values.shape) != 1
            or dense_shape.ndim != 1
        ):
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
        self._indices, self._values, self._dense_shape = indices, values, dense_shape

    @property
    def indices(self) -> Any:
        """The places of the values."""
        return frontend().shown_part(self._indices)

    @property
    def values(self) -> Any:
        """The values."""
        return frontend().shown_part(self._values)

    @property
    def plain_values(self) -> Any:
        """The values as an array of NumPy or JAX, without TensorFlow's methods."""
        return self._values

    @property
    def plain_indices(self) -> Any:
        """The places as an array of NumPy."""
        return self._indices

    @property
    def dense_shape(self) -> Any:
        """The shape of the array, as an array."""
        return frontend().shown_part(self._dense_shape)

    def with_values(self, values: Any) -> "SparseTensor":
        """Return other values at the same places, unchecked."""
        found = np.asarray(values) if isinstance(values, list | tuple) else values
        return self.of_checked(self._indices, found, self._dense_shape)

    @classmethod
    def of_checked(cls, indices: Any, values: Any, dense_shape: Any) -> "SparseTensor":
        """Return a sparse tensor of arrays that are known to fit: to check them takes as long as to hash."""
        tensor = object.__new__(cls)
        tensor._indices, tensor._values, tensor._dense_shape = indices, values, dense_shape
        return tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return tuple(np.asarray(self._dense_shape).tolist())

    @property
    def dtype(self) -> Any:
        """The type of the values."""
        return frontend().shown_part(self._values[:0]).dtype

    def __repr__(self) -> str:
        parts = ("indices", "values", "dense_shape")
        return f"SparseTensor({', '.join(f'{part}={getattr(self, part)!r}' for part in parts)})"

    def rows(self) -> list["SparseTensor"]:
        """Return the entries of the first axis."""
        ends = np.searchsorted(self._indices[:, 0], np.arange(self.shape[0]), side="right")[:-1]
        places = np.split(self._indices[:, 1:], ends) if self.shape[0] else []
        return [
            self.of_checked(at, values, self._dense_shape[1:])
            for at, values in zip(places, np.split(np.asarray(self._values), ends), strict=False)
        ]

    def to_dense(self, default_value: Any = None) -> Any:
        """Return the array, with a value for its empty places: by default 0, or empty text.

        Source: ``to_dense`` (tensorflow/python/ops/sparse_ops.py).
        """
        values, places = self._values, tuple(self._indices.T)
        if default_value is None:
            default_value = empty_value(values.dtype)
        if not isinstance(values, np.ndarray):
            full = values.__array_namespace__().full(self.shape, default_value, values.dtype)
            return frontend().shown_part(full.at[places].set(values))
        dense = np.full(self.shape, default_value, values.dtype)
        dense[places] = values
        return frontend().shown_part(dense)


def empty_value(dtype: Any) -> Any:
    """Return what fills empty places of arrays of a type: 0, or empty text."""
    return {"U": "", "S": b"", "O": b""}.get(np.dtype(dtype).kind, 0)


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
    rows = np.repeat(np.arange(len(tensors)), [len(tensor.plain_values) for tensor in tensors])
    indices = np.concatenate([tensor.plain_indices for tensor in tensors])
    return SparseTensor(
        np.concatenate([rows[:, None], indices], axis=1),
        np.concatenate([tensor.plain_values for tensor in tensors]),
        (len(tensors), *np.max([tensor.shape for tensor in tensors], axis=0)),
    )


def _strides(dense_shape: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return how many elements of the array lie between neighbours of each axis."""
    return np.append(np.cumprod(dense_shape[:0:-1])[::-1], 1)[: dense_shape.size].astype(np.int64)
