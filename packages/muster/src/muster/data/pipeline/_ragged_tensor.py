"""``tf.RaggedTensor``: rows of different lengths."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from muster._frontend import frontend
from muster.data.pipeline._ragged_parts import (
    in_rows,
    joined,
    positions,
    rows_of,
    sliced_rows,
    splits_of_lengths,
    taken,
)
from muster.data.pipeline._sparse_tensor import SparseTensor, empty_value
from muster.data.pipeline._spec import as_array


class RaggedTensor:
    """Rows of different lengths, whose values lie one after the other.

    `Dataset.from_tensor_slices` cuts ragged tensors into rows, which `padded_batch` makes equally long, and
    feature columns take them as they take sparse ones. The values may be a ragged tensor, too; then rows have
    rows. Where rows begin is known on the host, also while a step is traced that computes the values.

    Args:
        values: The values of all rows, of shape (values, ...): numbers, text or a ragged tensor.
        row_splits: Where rows begin, and where the last one ends: int64 of shape (rows + 1,).
        uniform_row_length: How long each row is, if all have one length by what they are.

    Raises:
        ValueError: The splits do not divide the values.

    Source: ``RaggedTensor`` (tensorflow/python/ops/ragged/ragged_tensor.py).
    """

    __slots__ = ("__weakref__", "_row_splits", "_values", "uniform_row_length")
    __array_ufunc__ = None  # NumPy's arrays leave operators to the ragged tensor

    def __init__(self, values: Any, row_splits: Any, uniform_row_length: int | None = None) -> None:
        if isinstance(values, np.ndarray) or not hasattr(values, "dtype"):
            values = np.asarray(as_array(values))
        splits = np.asarray(row_splits).astype(np.int64)
        fits = len(values.shape) and splits.ndim == 1 and len(splits) and splits[0] == 0
        if not fits or splits[-1] != values.shape[0] or (splits[1:] < splits[:-1]).any():
            raise ValueError(
                "The row_splits of a RaggedTensor rise from 0 to the number of values, got "
                f"{splits.tolist()} for values of shape {tuple(values.shape)}."
            )
        self._values = values
        self._row_splits = splits
        self.uniform_row_length = uniform_row_length

    @classmethod
    def of_checked(cls, values: Any, row_splits: Any, uniform_row_length: int | None) -> "RaggedTensor":
        """Return rows of parts that are known to fit, or of what JAX has in the place of values."""
        made = object.__new__(cls)
        made._values, made._row_splits, made.uniform_row_length = values, row_splits, uniform_row_length
        return made

    @classmethod
    def from_row_splits(cls, values: Any, row_splits: Any, *_: Any, **__: Any) -> "RaggedTensor":
        """Return rows that begin at `row_splits`."""
        return cls(values, row_splits)

    @classmethod
    def from_row_lengths(cls, values: Any, row_lengths: Any, *_: Any, **__: Any) -> "RaggedTensor":
        """Return rows of these lengths."""
        return cls(values, splits_of_lengths(row_lengths))

    @classmethod
    def from_uniform_row_length(
        cls, values: Any, uniform_row_length: int, nrows: int | None = None, *_: Any, **__: Any
    ) -> "RaggedTensor":
        """Return rows of one length; without values, `nrows` says how many there are."""
        length = int(uniform_row_length)
        count = len(values) // length if nrows is None and length else int(nrows or 0)
        return cls(values, np.arange(count + 1) * length, length)

    @classmethod
    def from_nested_row_splits(
        cls, flat_values: Any, nested_row_splits: Iterable[Any], *_: Any, **__: Any
    ) -> Any:
        """Return rows of rows, from the splits of each axis, the outermost first."""
        for splits in reversed(list(nested_row_splits)):
            flat_values = cls(flat_values, splits)
        return flat_values

    @classmethod
    def from_rows(cls, rows: Iterable[Sequence[Any]], dtype: DTypeLike | None = None) -> "RaggedTensor":
        """Return rows given as lists."""
        lists = [list(row) for row in rows]
        flat = [value for row in lists for value in row]
        return cls.from_row_lengths(_values_of(flat, dtype), [len(row) for row in lists])

    @classmethod
    def stacked(cls, rows: Sequence[Any]) -> "RaggedTensor":
        """Return arrays, or ragged tensors, that differ in the size of their first axis as rows.

        Raises:
            ValueError: They differ in other axes.
        """
        return cls.from_row_lengths(joined(rows), [len(row) for row in rows])

    @classmethod
    def from_tensor(
        cls,
        tensor: Any,
        lengths: Any = None,
        padding: Any = None,
        ragged_rank: int = 1,
        *_: Any,
        **__: Any,
    ) -> "RaggedTensor":
        """Return the rows of an array, without what fills them up.

        Args:
            tensor: Values of two axes or more.
            lengths: How long rows are; for several ragged axes a list of the lengths in each.
            padding: The value that fills rows up at their ends.
            ragged_rank: How many axes after the first are ragged.

        Raises:
            ValueError: Both `lengths` and `padding` are given.
        """
        if lengths is not None and padding is not None:
            raise ValueError("Specify argument 'lengths' or 'padding', but not both.")
        array = tensor if hasattr(tensor, "dtype") else as_array(tensor)
        if lengths is not None and len(lengths) and np.ndim(lengths[0]):
            first, *others = lengths
            kept = cls.from_tensor(array, first)
            inner = cls.from_tensor(kept._values, others if len(others) > 1 else others[0])
            return kept.with_values(inner)
        if ragged_rank > 1:
            flat = array.reshape(-1, *array.shape[2:])
            inner = cls.from_tensor(flat, None, padding, ragged_rank - 1)
            return cls.from_uniform_row_length(inner, array.shape[1], array.shape[0]).of_any_length()
        rows, size = array.shape[:2]
        if padding is not None:
            there = (np.asarray(array) != padding).reshape(rows, size, -1).any(-1)
            lengths = size - np.argmax(np.c_[there[:, ::-1], np.ones(rows, bool)], axis=1)
        flat = array.reshape(-1, *array.shape[2:])
        if lengths is None:
            return cls(flat, np.arange(rows + 1) * size)
        counts = np.minimum(np.asarray(lengths, np.int64), size)
        return cls(flat[in_rows(np.arange(rows) * size, counts)], splits_of_lengths(counts))

    def of_any_length(self) -> "RaggedTensor":
        """Return the same rows, whose lengths are not said to be one."""
        return RaggedTensor(self._values, self._row_splits)

    @property
    def values(self) -> Any:
        """The values of all rows."""
        return frontend().shown_part(self._values)

    @property
    def flat_values(self) -> Any:
        """The values of all innermost rows, which are an array."""
        return frontend().shown_part(self.plain_values)

    @property
    def plain_values(self) -> Any:
        """The same as arrays of NumPy or JAX, without TensorFlow's methods."""
        return self._values.plain_values if isinstance(self._values, RaggedTensor) else self._values

    @property
    def inner(self) -> Any:
        """The values of all rows: a ragged tensor, or an array without TensorFlow's methods."""
        return self._values

    def taken(self, places: Any) -> Any:
        """Return values at these places, whatever rows they are in."""
        return taken(self._values, places)

    def rows_at(self, numbers: Any) -> "RaggedTensor":
        """Return the rows of these numbers."""
        found: RaggedTensor = taken(self, numbers)
        return found

    def row(self, number: int) -> Any:
        """Return a row: a ragged tensor, or an array without TensorFlow's methods."""
        return taken(self._values, slice(*map(int, self._row_splits[number : number + 2])))

    @property
    def row_splits(self) -> Any:
        """The start of each row, and the end of the last."""
        return frontend().shown_part(self._row_splits)

    @property
    def plain_splits(self) -> list[np.ndarray[Any, Any]]:
        """The splits of each ragged axis, the outermost first, as arrays of NumPy."""
        inner = self._values.plain_splits if isinstance(self._values, RaggedTensor) else []
        return [self._row_splits, *inner]

    @property
    def nested_row_splits(self) -> tuple[Any, ...]:
        """The splits of each ragged axis, the outermost first."""
        return tuple(map(frontend().shown_part, self.plain_splits))

    @property
    def ragged_rank(self) -> int:
        """The number of ragged axes."""
        return len(self.plain_splits)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """The number of rows, their length or None, and the sizes of further axes."""
        return (len(self), self.uniform_row_length, *self._values.shape[1:])

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        """The type of the values."""
        return frontend().shown_part(self.plain_values[:0]).dtype

    def row_lengths(self, axis: int = 1, name: str | None = None) -> Any:
        """Return the lengths of rows, int64 of shape (rows,); of a deeper axis as a ragged tensor."""
        if axis > 1:
            return self.with_values(self._values.row_lengths(axis - 1))
        return frontend().shown_part(np.diff(self._row_splits))

    def with_values(self, values: Any) -> "RaggedTensor":
        """Return other values in the same rows."""
        return RaggedTensor(values, self._row_splits, self.uniform_row_length)

    def with_flat_values(self, values: Any) -> "RaggedTensor":
        """Return other values in the same innermost rows."""
        if isinstance(self._values, RaggedTensor):
            values = self._values.with_flat_values(values)
        return self.with_values(values)

    def rows(self) -> list[Any]:
        """Return the rows, as views of the values."""
        return [self.row(number) for number in range(len(self))]

    def lists(self) -> list[Any]:
        """Return the rows as lists; text as str."""
        return [
            row.lists() if isinstance(row, RaggedTensor) else np.asarray(row).tolist() for row in self.rows()
        ]

    def to_list(self) -> list[Any]:
        """Return the rows as lists; in TensorFlow's programs, text as bytes."""
        flat = self.flat_values
        return self.with_flat_values(np.asarray(flat.numpy() if hasattr(flat, "numpy") else flat)).lists()

    def numpy(self) -> Any:
        """Return an array of the rows, which are objects unless they have one length."""
        rows = [frontend().shown_part(row) for row in self.rows()]
        arrays = [row.numpy() if hasattr(row, "numpy") else row for row in rows]
        if len({array.shape for array in arrays}) == 1:
            return np.stack(arrays)
        found = np.empty(len(arrays), object)
        for number, array in enumerate(arrays):
            found[number] = array
        return found

    def __len__(self) -> int:
        return len(self._row_splits) - 1

    def __iter__(self) -> Iterator[Any]:
        return (frontend().shown_part(row) for row in self.rows())

    def __getitem__(self, key: Any) -> Any:
        """Return a part: rows by number, slice or a list of numbers, and parts of these rows."""
        return frontend().shown_part(sliced_rows(self, key))

    def __repr__(self) -> str:
        return f"<tf.RaggedTensor {self.to_list()}>"

    def to_sparse(self, name: str | None = None) -> SparseTensor:
        """Return a sparse tensor of shape (rows, the longest row's length, ...)."""
        flat, shape = np.asarray(self.plain_values), self._bounds()
        inner = np.indices(flat.shape[1:]).reshape(flat.ndim - 1, math.prod(flat.shape[1:])).T
        outer = np.stack(self.coordinates(), axis=1)
        indices = np.c_[np.repeat(outer, len(inner), axis=0), np.tile(inner, (len(outer), 1))]
        return SparseTensor(indices, flat.reshape(-1), shape)

    def to_tensor(self, default_value: Any = None, name: str | None = None, shape: Any = None) -> Any:
        """Return an array of rows that are filled up with a value: by default 0, or empty text.

        Args:
            default_value: The value, or an array of values for the innermost axes.
            name: Unused.
            shape: The shape of the array, None for the size that fits; what lies outside is cut off.
        """
        flat, bounds = self.plain_values, self._bounds()
        wanted = (
            list(shape) + [None] * (len(bounds) - len(list(shape)))
            if shape is not None
            else [None] * len(bounds)
        )
        sizes = [bound if size is None else int(size) for bound, size in zip(bounds, wanted, strict=True)]
        places = self.coordinates()
        inside = np.all([place < size for place, size in zip(places, sizes, strict=False)], axis=0)
        if not inside.all():
            flat, places = flat[np.flatnonzero(inside)], [place[inside] for place in places]
        if default_value is None:
            default_value = empty_value(flat.dtype)
        xp = np if isinstance(flat, np.ndarray) else flat.__array_namespace__()
        filled = xp.full(
            (*sizes[: len(places)], *flat.shape[1:]), default_value, _wide_enough(flat.dtype, default_value)
        )
        if xp is not np:
            return frontend().shown_part(filled.at[tuple(places)].set(flat))
        filled[tuple(places)] = flat
        return frontend().shown_part(filled)

    def coordinates(self) -> list[np.ndarray[Any, Any]]:
        """Return where each value lies in each axis up to the innermost rows, int64 of shape (values,)."""
        here = [rows_of(self._row_splits), positions(self._row_splits)]
        if not isinstance(self._values, RaggedTensor):
            return here
        inner_row, *inner = self._values.coordinates()
        return [*(place[inner_row] for place in here), *inner]

    def coordinates_of_rows(self) -> np.ndarray[Any, Any]:
        """Return the number of each value's row."""
        return rows_of(self._row_splits)

    def _bounds(self) -> list[int]:
        lengths = [int(np.diff(splits).max(initial=0)) for splits in self.plain_splits]
        return [len(self), *lengths, *self.plain_values.shape[1:]]


def _wide_enough(dtype: Any, default: Any) -> Any:
    """Return a type for text of values and of what fills them up; that of the values if they are numbers."""
    return np.result_type(dtype, np.asarray(default)) if np.dtype(dtype).kind == "U" else dtype


def _values_of(flat: list[Any], dtype: DTypeLike | None) -> Any:
    """Return an array of what Python lists hold; floats become float32, and integers int32 if they fit."""
    if dtype is None:
        return as_array(flat)
    if np.dtype(dtype).kind == "U" and any(isinstance(value, bytes) for value in flat):
        dtype = object  # NumPy's bytes would lose zeros at their ends
    return np.array(flat, dtype)
