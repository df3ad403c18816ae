"""Arrays whose elements stay in a checkpoint's files: read by rows, or in pieces, by memory maps."""

import math
import mmap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from muster._arrays import LazyArray

Array = np.ndarray[Any, Any]

LEAST_MAPPED_BYTES = 16 << 20
"""The size of the smallest variable that stays in its file where that is asked for: reading a smaller one
whole takes less than a tenth of a second, and its memory does not matter."""

# How many bytes of an array are read at a time.
_PIECE_BYTES = 8 << 20
# The pages of smaller files stay: reading a row again is faster then.
_KEPT_BYTES = 64 << 20
# How many rows are looked up before their pages are given back: each may bring 300 KB into memory, and giving
# them back takes some microseconds.
_ROWS_AT_ONCE = 1 << 8


class MappedFile:
    """A data file, mapped into memory: it can be read after it was deleted, until it is closed.

    Args:
        file: The file, open for reading; it may be closed afterwards.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._held.madvise(mmap.MADV_RANDOM)

    def bytes(self, offset: int, nbytes: int) -> Array:
        """Return bytes of the file: a view, uint8. Let go of it before `close`."""
        return np.frombuffer(self._held, np.uint8, nbytes, offset)

    def expect(self, offset: int, nbytes: int) -> None:
        """Let the system read bytes ahead."""
        start = offset - offset % mmap.PAGESIZE
        self._held.madvise(mmap.MADV_WILLNEED, start, offset + nbytes - start)

    def forget(self) -> None:
        """Give back the memory of what was read; the system may keep it as long as it has room."""
        if len(self._held) > _KEPT_BYTES:
            self._held.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Unmap the file, so that the disk is free of it once it is deleted."""
        # Without names of this module: a generator may end when the interpreter has taken them away.
        try:
            self._held.close()
        except BufferError:  # an error's traceback has a view; then it is unmapped when that goes
            pass


@dataclass(frozen=True)
class ArrayPlace:
    """The place of an array: a file, and its first byte there."""

    file: MappedFile
    offset: int


class MappedRows:
    """Consecutive rows of an array.

    Args:
        start: The first row.
        stop: The row after the last.
        base: Their elements.
        numbers: Which of them have changed since those were written: int64 of shape (n,), from 0 for the
            first. Of one that is there twice, the last counts.
        changed: The elements of the changed ones; None for none.
    """

    def __init__(
        self,
        start: int,
        stop: int,
        base: ArrayPlace,
        numbers: Array | None = None,
        changed: ArrayPlace | None = None,
    ) -> None:
        self.start, self.stop, self.base = start, stop, base
        self._changed = changed
        numbers = np.empty(0, np.int64) if numbers is None else numbers
        self._order = np.argsort(numbers, kind="stable")
        self._numbers = numbers[self._order]

    def read(self, array: "MappedArray", numbers: Array, into: Array) -> None:
        """Read rows by their numbers, counted from the first one of these, and give back the pages."""
        into[...] = array.stored(self.base, self.stop - self.start)[numbers]
        self.base.file.forget()
        if self._changed is None or not len(self._numbers):
            return
        places = np.searchsorted(self._numbers, numbers, side="right") - 1
        newer = np.flatnonzero((places >= 0) & (self._numbers[places] == numbers))
        for first in range(0, len(newer), _ROWS_AT_ONCE):
            some = newer[first : first + _ROWS_AT_ONCE]
            rows = array.stored(self._changed, len(self._numbers))
            into[some] = rows[self._order[places[some]]]
            self._changed.file.forget()

    def close(self) -> None:
        """Let go of the files."""
        self.base.file.close()
        if self._changed is not None:
            self._changed.file.close()


def close_files(values: Iterable[Any]) -> None:
    """Let go of the files in which some of the values lie."""
    for value in values:
        if isinstance(value, MappedArray):
            value.close()


class MappedArray(LazyArray):
    """An array with one axis at least that lies in files; nothing of it stays in memory.

    Args:
        shape: Its shape.
        dtype: Its dtype in the files.
        parts: Where its rows are, in order, all of them.
        to: The dtype of what is read; None for that of the files.
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: np.dtype[Any],
        parts: Iterable[MappedRows],
        to: np.dtype[Any] | None = None,
    ) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype if to is None else to
        self._stored_dtype = dtype
        self._parts = tuple(parts)
        self._starts = np.array([part.start for part in self._parts])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any, /) -> Any:
        return np.asarray(self)[index]

    def __iter__(self) -> Iterator[Any]:
        for piece in self.pieces():
            yield from piece

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        made = np.empty(self.shape, self.dtype)
        self.read_into(made)
        return made if dtype is None else made.astype(dtype, copy=False)

    def copy(self) -> Array:
        """Return all of it in memory."""
        return np.asarray(self)

    def astype(self, dtype: Any, copy: bool = True) -> "MappedArray":
        """Return the array with another dtype, in the same files."""
        return MappedArray(self.shape, self._stored_dtype, self._parts, np.dtype(dtype))

    def reordered(self, order: Array) -> "MappedArray":
        """Return rows of this array in another order, and then one of zeros.

        Args:
            order: The numbers of the rows, of shape (n,).
        """
        return _Reordered(self, order)

    def rows(self, numbers: Array) -> Array:
        """Return rows, a new array.

        Args:
            numbers: Their numbers, of shape (n,), in range; the fastest in ascending order.
        """
        made = np.empty((len(numbers), *self.shape[1:]), self.dtype)
        for first in range(0, len(numbers), _ROWS_AT_ONCE):
            some = numbers[first : first + _ROWS_AT_ONCE]
            order = np.argsort(some, kind="stable")
            some, into = some[order], np.empty((len(some), *self.shape[1:]), self.dtype)
            bounds = np.searchsorted(some, [*self._starts, self.shape[0]])
            for part, begin, end in zip(self._parts, bounds, bounds[1:], strict=False):
                if begin < end:
                    part.read(self, some[begin:end] - part.start, into[begin:end])
            made[first + order] = into
        return made

    def pieces(self) -> Iterator[Array]:
        """Return all rows in order, some at a time, in new arrays."""
        row = math.prod(self.shape[1:]) * self._stored_dtype.itemsize
        many = max(1, _PIECE_BYTES // max(1, row))
        for part in self._parts:
            for first in range(0, part.stop - part.start, many):
                last = min(first + many, part.stop - part.start)
                part.base.file.expect(part.base.offset + first * row, (last - first) * row)
                piece = np.empty((last - first, *self.shape[1:]), self.dtype)
                part.read(self, np.arange(first, last), piece)
                yield piece

    def read_into(self, array: Array) -> None:
        """Read all of it into an array of its shape."""
        start = 0
        for piece in self.pieces():
            array[start : start + len(piece)] = piece
            start += len(piece)

    def close(self) -> None:
        """Let go of the files; nothing can be read any more, nor of other arrays in them."""
        for part in self._parts:
            part.close()

    def stored(self, place: ArrayPlace, rows: int) -> Array:
        """Return rows in a file, a view."""
        nbytes = rows * math.prod(self.shape[1:]) * self._stored_dtype.itemsize
        flat = place.file.bytes(place.offset, nbytes)
        return flat.view(self._stored_dtype).reshape(rows, *self.shape[1:])


class _Reordered(MappedArray):
    """Some rows of another array in an order of their own, and then one of zeros: only numbers are kept."""

    def __init__(self, array: MappedArray, order: Array) -> None:
        super().__init__((len(order) + 1, *array.shape[1:]), array._stored_dtype, array._parts, array.dtype)
        self._array = array
        self._order = order

    def astype(self, dtype: Any, copy: bool = True) -> MappedArray:
        return _Reordered(self._array.astype(dtype), self._order)

    def rows(self, numbers: Array) -> Array:
        made = np.zeros((len(numbers), *self.shape[1:]), self.dtype)
        there = numbers < len(self._order)
        made[there] = self._array.rows(self._order[numbers[there]])
        return made

    def pieces(self) -> Iterator[Array]:
        row = math.prod(self.shape[1:]) * self._stored_dtype.itemsize
        many = max(1, _PIECE_BYTES // max(1, row))
        for first in range(0, self.shape[0], many):
            yield self.rows(np.arange(first, min(first + many, self.shape[0])))
