"""``tf.RaggedTensor``: rows of different lengths."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from muster.data.pipeline._sparse_tensor import SparseTensor


@dataclass(frozen=True, eq=False)
class RaggedTensor:
    """Rows of different lengths, whose values lie one after the other.

    Ragged tensors are for the host. `Dataset.from_tensor_slices` cuts them into rows, which `padded_batch`
    makes equally long, and feature columns take them as they take sparse ones.

    Args:
        values: The values of all rows, of shape (values, ...): numbers or text.
        row_splits: Where rows begin, and where the last one ends: int64 of shape (rows + 1,).

    Raises:
        ValueError: The splits do not divide the values.

    Source: ``RaggedTensor`` (tensorflow/python/ops/ragged/ragged_tensor.py), with one ragged axis.
    """

    values: Any
    row_splits: Any

    def __post_init__(self) -> None:
        values, splits = np.asarray(self.values), np.asarray(self.row_splits, np.int64)
        fits = values.ndim and splits.ndim == 1 and len(splits) and splits[0] == 0
        if not fits or splits[-1] != len(values) or (splits[1:] < splits[:-1]).any():
            raise ValueError(
                "The row_splits of a RaggedTensor rise from 0 to the number of values, got "
                f"{splits.tolist()} for values of shape {values.shape}."
            )
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "row_splits", splits)

    @classmethod
    def from_row_splits(cls, values: Any, row_splits: Any) -> "RaggedTensor":
        """Return rows that begin at `row_splits`."""
        return cls(values, row_splits)

    @classmethod
    def from_row_lengths(cls, values: Any, row_lengths: Any) -> "RaggedTensor":
        """Return rows of these lengths."""
        return cls(values, np.append(0, np.cumsum(row_lengths)))

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[Any]], dtype: DTypeLike | None = None) -> "RaggedTensor":
        """Return rows given as lists.

        Source: ``constant`` (tensorflow/python/ops/ragged/ragged_factory_ops.py).
        """
        lists = [list(row) for row in rows]
        joined = [value for row in lists for value in row]
        if dtype is None and any(isinstance(value, bytes) for value in joined):
            dtype = object  # NumPy's bytes would lose zeros at their ends
        if dtype is None and joined and all(isinstance(value, float) for value in joined):
            dtype = np.float32
        return cls.from_row_lengths(np.array(joined, dtype), [len(row) for row in lists])

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The number of rows, None, and the sizes of further axes."""
        return (len(self.row_splits) - 1, None, *self.values.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of the values."""
        dtype: np.dtype[Any] = self.values.dtype
        return dtype

    def row_lengths(self) -> np.ndarray[Any, Any]:
        """Return the lengths of the rows, int64 of shape (rows,)."""
        return np.diff(self.row_splits)

    def rows(self) -> list[np.ndarray[Any, Any]]:
        """Return the rows, as views."""
        return np.split(self.values, self.row_splits[1:-1]) if len(self.row_splits) > 1 else []

    def to_list(self) -> list[Any]:
        """Return the rows as lists."""
        return [row.tolist() for row in self.rows()]

    def __len__(self) -> int:
        return len(self.row_splits) - 1

    def __getitem__(self, rows: Any) -> Any:
        """Return a row, or with a slice or a list of numbers a ragged tensor of rows."""
        if isinstance(rows, tuple):
            return self[rows[0]][rows[1:]]
        kept = self.rows()[rows] if isinstance(rows, slice) else None
        if kept is None and np.ndim(rows) == 0:
            return self.rows()[int(rows)]
        if kept is None:
            kept = [self.rows()[int(number)] for number in rows]
        values = np.concatenate([self.values[:0], *kept])
        return RaggedTensor.from_row_lengths(values, [len(row) for row in kept])

    @property
    def flat_values(self) -> np.ndarray[Any, Any]:
        """The values of all rows."""
        flat: np.ndarray[Any, Any] = self.values
        return flat

    def nrows(self) -> int:
        """Return the number of rows."""
        return len(self)

    def to_sparse(self) -> SparseTensor:
        """Return a sparse tensor of shape (rows, the longest row's length)."""
        lengths = self.row_lengths()
        columns = np.arange(len(self.values)) - np.repeat(self.row_splits[:-1], lengths)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        return SparseTensor(
            np.stack([rows, columns], axis=1), self.values, (len(lengths), lengths.max(initial=0))
        )

    def to_tensor(self, default_value: Any = None) -> np.ndarray[Any, Any]:
        """Return an array of rows that are filled up with a value: by default 0, or empty text."""
        return self.to_sparse().to_dense(default_value)
