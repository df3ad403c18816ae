"""Sparse tensors of a batch, passed to a step as arrays with a batch axis."""

from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from muster._errors import TraceError
from muster._frontend import frontend
from muster.data import SparseTensor


@jax.tree_util.register_pytree_node_class
class SparseRows(SparseTensor):
    """A sparse matrix of numbers, the values of each row side by side and padded.

    The places of values differ from batch to batch, and a step is compiled for all. So they are arrays, and
    what fills the rest of a row has a place behind the last row, which operations leave out. How many columns
    there are is known: a step is compiled for each such number, as for arrays of different shapes.

    Args:
        columns: The columns of the values, int32 of shape (rows, most values of a row).
        packed: The values, of the same shape.
        counts: How many values each row has, int32 of shape (rows,).
        width: The number of columns.
    """

    __slots__ = ("_columns", "_counts", "_packed", "_width")

    def __init__(self, columns: Any, packed: Any, counts: Any, width: int) -> None:
        self._columns, self._packed, self._counts, self._width = columns, packed, counts, width

    @classmethod
    def of(cls, sparse: SparseTensor) -> Self:
        """Return a sparse matrix whose places are known in this form.

        Rows are padded to a power of two, so that few steps are compiled where their lengths differ.
        """
        count, width = sparse.shape
        rows, columns = sparse.plain_indices.T
        counts = np.bincount(rows, minlength=count)
        most = 1 << max(0, int(counts.max(initial=1)) - 1).bit_length()
        at = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        placed = np.zeros((count, most), np.int32)
        placed[rows, at] = columns
        values: Any = sparse.plain_values
        packed: Any
        if isinstance(values, np.ndarray):
            packed = np.zeros((count, most), values.dtype)
            packed[rows, at] = values
        else:
            packed = jnp.zeros((count, most), values.dtype).at[rows, at].set(values)
        return cls(placed, packed, counts.astype(np.int32), width)

    def tree_flatten(self) -> tuple[tuple[Any, Any, Any], int]:
        """Return the arrays, and the number of columns."""
        return (self._columns, self._packed, self._counts), self._width

    @classmethod
    def tree_unflatten(cls, width: int, arrays: tuple[Any, Any, Any]) -> Self:
        """Return the matrix of arrays, which may be anything."""
        return cls(*arrays, width)

    @property
    def indices(self) -> Any:
        """The places: refused, since the number of values is not known.

        Raises:
            TraceError: Always.
        """
        raise self._unknown("indices")

    @property
    def values(self) -> Any:
        """The values: refused likewise.

        Raises:
            TraceError: Always.
        """
        raise self._unknown("values")

    @staticmethod
    def _unknown(part: str) -> TraceError:
        return TraceError(
            f"A step is compiled for batches with any number of values, so that the {part} of a sparse "
            "feature are no array. Use tf.sparse.to_dense, tf.sparse.map_values, "
            "tf.sparse.sparse_dense_matmul or tf.nn.embedding_lookup_sparse, or compute with the "
            f"{part} in the input function."
        )

    @property
    def plain_indices(self) -> Any:
        """The places, int32 of shape (values, 2), those of the padding behind the last row."""
        rows = jnp.where(self._there, jnp.arange(self.shape[0])[:, None], self.shape[0])
        return jnp.stack([rows.ravel(), jnp.asarray(self._columns).ravel()], axis=1)

    @property
    def plain_values(self) -> Any:
        """The values with the padding, of shape (values,)."""
        return jnp.asarray(self._packed).ravel()

    @property
    def dense_shape(self) -> Any:
        """The shape of the array, as an array."""
        return frontend().shown_part(np.array(self.shape))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return (self._packed.shape[0], self._width)

    @property
    def dtype(self) -> Any:
        """The type of the values."""
        return frontend().shown_part(self._packed).dtype

    @property
    def _there(self) -> Any:
        return jnp.arange(self._packed.shape[1]) < jnp.asarray(self._counts)[:, None]

    def __repr__(self) -> str:
        return f"SparseRows(shape={self.shape}, dtype={self._packed.dtype})"

    def with_values(self, values: Any) -> "SparseRows":
        """Return other values at the same places."""
        return SparseRows(self._columns, values.reshape(self._packed.shape), self._counts, self._width)

    @property
    def row_lengths(self) -> Any:
        """The number of values of each row, int32 of shape (rows,)."""
        return self._counts

    @property
    def row_size(self) -> tuple[int, int]:
        """The padded number of values of a row, and the number of columns."""
        return self._packed.shape[1], self._width

    def widened(self, most: int, width: int) -> "SparseRows":
        """Return a matrix with more columns, and more padding: NumPy arrays."""
        padding = ((0, 0), (0, most - self._packed.shape[1]))
        columns, packed = np.pad(self._columns, padding), np.pad(self._packed, padding)
        return SparseRows(columns, packed, self._counts, width)

    def by_rows(self, padding: Any) -> Any:
        """Return the values, of shape (rows, most values of a row), with a value for the padding."""
        return jnp.where(self._there, self._packed, padding)

    def to_dense(self, default_value: Any = None) -> Any:
        """Return the array, with a value for its empty places: by default 0."""
        full = jnp.full(self.shape, default_value or 0, jnp.asarray(self._packed).dtype)
        places = tuple(self.plain_indices.T)
        return frontend().shown_part(full.at[places].set(self.plain_values, mode="drop"))
