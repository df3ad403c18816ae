"""TensorFlow's methods of ragged tensors that muster's own lack: other descriptions of rows."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from muster.data import RaggedTensor, SparseTensor
from muster_tensorflow.library.ops._eager_values import shown_part


class RaggedMethods(RaggedTensor):
    """The methods, written as of a class that has them; see ``add_operators``."""

    @classmethod
    def from_row_starts(cls, values: Any, row_starts: Any, *_: Any, **__: Any) -> RaggedTensor:
        """Return rows that begin at these places; the last one ends with the values."""
        return cls(values, np.append(np.asarray(row_starts, np.int64), len(values)))

    @classmethod
    def from_row_limits(cls, values: Any, row_limits: Any, *_: Any, **__: Any) -> RaggedTensor:
        """Return rows that end at these places; the first one begins with the values."""
        return cls(values, np.append(0, np.asarray(row_limits, np.int64)))

    @classmethod
    def from_value_rowids(
        cls, values: Any, value_rowids: Any, nrows: int | None = None, *_: Any, **__: Any
    ) -> RaggedTensor:
        """Return rows of a value's row numbers, which never fall; rows at the end may be empty."""
        return cls(values, _splits_of_row_ids(value_rowids, nrows))

    @classmethod
    def from_nested_row_lengths(
        cls, flat_values: Any, nested_row_lengths: Iterable[Any], *_: Any, **__: Any
    ) -> Any:
        """Return rows of rows, from the lengths in each axis, the outermost first."""
        return cls.from_nested_row_splits(flat_values, map(_splits_of_lengths, nested_row_lengths))

    @classmethod
    def from_nested_value_rowids(
        cls,
        flat_values: Any,
        nested_value_rowids: Sequence[Any],
        nested_nrows: Sequence[int] | None = None,
        *_: Any,
        **__: Any,
    ) -> Any:
        """Return rows of rows, from the row numbers of each axis, the outermost first."""
        counts: Sequence[int | None] = nested_nrows or [None] * len(nested_value_rowids)
        splits = map(_splits_of_row_ids, nested_value_rowids, counts)
        return cls.from_nested_row_splits(flat_values, splits)

    @classmethod
    def from_sparse(cls, st_input: SparseTensor, *_: Any, **__: Any) -> RaggedTensor:
        """Return the rows of a sparse tensor of two axes, whose values are the first ones of their rows."""
        rows, columns = np.asarray(st_input.plain_indices).T
        found = cls.from_value_rowids(st_input.plain_values, rows, st_input.shape[0])
        if (columns != _positions(found.plain_splits[0])).any():
            raise ValueError("The SparseTensor is not right-ragged: there are empty places before values.")
        return found

    def nested_row_lengths(self, name: str | None = None) -> tuple[Any, ...]:
        """Return the lengths in each ragged axis, the outermost first."""
        return tuple(shown_part(np.diff(splits)) for splits in self.plain_splits)

    def nested_value_rowids(self, name: str | None = None) -> tuple[Any, ...]:
        """Return the row numbers of values in each ragged axis, the outermost first."""
        return tuple(shown_part(_rows_of(splits)) for splits in self.plain_splits)

    def value_rowids(self, name: str | None = None) -> Any:
        """Return the number of each value's row."""
        return shown_part(_rows_of(self.plain_splits[0]))

    def row_starts(self, name: str | None = None) -> Any:
        """Return where rows begin."""
        return shown_part(self.plain_splits[0][:-1])

    def row_limits(self, name: str | None = None) -> Any:
        """Return where rows end."""
        return shown_part(self.plain_splits[0][1:])

    def nrows(self, out_type: DTypeLike = np.int64, name: str | None = None) -> Any:
        """Return the number of rows."""
        return shown_part(np.dtype(out_type).type(len(self)))

    def bounding_shape(
        self, axis: int | None = None, name: str | None = None, out_type: DTypeLike = np.int64
    ) -> Any:
        """Return the shape of the smallest array that has room for the rows, or its size in an axis."""
        lengths = [int(np.diff(splits).max(initial=0)) for splits in self.plain_splits]
        sizes = np.array([len(self), *lengths, *self.plain_values.shape[1:]], out_type)
        return shown_part(sizes if axis is None else sizes[axis])

    def with_row_splits_dtype(self, dtype: DTypeLike) -> RaggedTensor:
        """Return the ragged tensor: splits are int64."""
        return self

    def merge_dims(self, outer_axis: int, inner_axis: int) -> Any:
        """Return the values with the axes from `outer_axis` to `inner_axis` as one."""
        outer, inner = outer_axis % self.ndim, inner_axis % self.ndim
        if outer >= inner:
            return self
        values, splits = self.inner, self.plain_splits[0]
        if outer > 1 and isinstance(values, RaggedTensor):
            values_of_all: Any = values
            return self.with_values(values_of_all.merge_dims(outer - 1, inner - 1))
        if outer > 1:
            return self.with_values(values.reshape(*values.shape[: outer - 1], -1, *values.shape[inner:]))
        for _ in range(inner - 1):
            if isinstance(values, RaggedTensor):
                values, splits = values.inner, values.plain_splits[0][splits]
            else:
                values, splits = values.reshape(-1, *values.shape[2:]), splits * values.shape[1]
        return RaggedTensor(values, splits) if outer else shown_part(values)


def _splits_of_lengths(lengths: Any) -> np.ndarray[Any, Any]:
    return np.append(0, np.cumsum(np.asarray(lengths, np.int64)))


def _splits_of_row_ids(row_ids: Any, count: int | None = None) -> np.ndarray[Any, Any]:
    """Return the row splits of values of which these are the row numbers."""
    ids = np.asarray(row_ids, np.int64)
    rows = int(ids.max(initial=-1)) + 1 if count is None else int(count)
    splits: np.ndarray[Any, Any] = np.searchsorted(ids, np.arange(rows + 1))
    return splits


def _rows_of(splits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the number of each value's row."""
    return np.repeat(np.arange(len(splits) - 1), np.diff(splits))


def _positions(splits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return where in its row each value lies."""
    places: np.ndarray[Any, Any] = np.arange(splits[-1]) - np.repeat(splits[:-1], np.diff(splits))
    return places
