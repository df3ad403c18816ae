"""Rows in memory, read and written by index, and snapshotted while they change.

The rows are NumPy arrays that are changed in place: gathering and scattering rows costs the same for any
number of places, and nothing is ever copied as a whole. Whoever reads rows gets copies.
"""

import itertools
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from muster.ps._flat_layout import Array
from muster.ps._row_snapshots import RowLayout, as_slice
from muster.ps.tables._spec import Column

Places = npt.NDArray[np.int64]

# What is said of a block of places: it has rows; and for each `RowTaker`: they differ from those that it has
# taken last, when it took all; it is still to take them.
_USED = np.uint8(1)
_CHANGED, _PENDING = (np.uint8(2), np.uint8(8)), (np.uint8(4), np.uint8(16))
# Rows of fewer bytes share what is said of them with those beside them, so that it takes little memory.
_BLOCK_BYTES = 16
# How many bytes of rows there are in a piece, and how many times as many blocks are looked at for it.
_PIECE_BYTES, _WINDOW = 1 << 20, 4
# How many blocks are marked at once as still to be taken.
_MARKED = 1 << 15


class RowStore:
    """Rows by place. One thread changes them; others may take them meanwhile.

    Args:
        columns: What each row has.
        places: The number of places. No rows are in use at first.

    Attributes:
        for_snapshots: Takes rows for the server's own snapshots.
        for_checkpoints: Takes rows for checkpoints.
    """

    def __init__(self, columns: Sequence[Column], places: int) -> None:
        self.columns = tuple(columns)
        self.row_nbytes = sum(column.nbytes for column in columns)
        self._size = places
        self._shift = max(0, (_BLOCK_BYTES // self.row_nbytes).bit_length() - 1)
        self._arrays = [np.empty((places, *column.shape), column.dtype) for column in columns]
        self._flags = np.zeros(self._blocks(places), np.uint8)
        self._lock = threading.Lock()  # for all that writes, and for what takes rows
        self.for_snapshots, self.for_checkpoints = self._takers = RowTaker(self, 0), RowTaker(self, 1)

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        """The memory that this takes, in bytes."""
        return sum(each.nbytes for each in (*self._arrays, self._flags))

    @property
    def layout(self) -> RowLayout:
        """The layout of a row."""
        return tuple((column.shape, column.dtype.name) for column in self.columns)

    def grow(self, places: int) -> None:
        """Have room for more rows; most systems enlarge large arrays without a copy."""
        with self._lock:
            for array in self._arrays:
                array.resize((places, *array.shape[1:]), refcheck=False)  # nobody else ever has a view
            self._flags.resize(self._blocks(places), refcheck=False)
            self._size = places

    def add(self, column: Column, value: float) -> None:
        """Have another column, with the same value in all rows."""
        with self._lock:
            self._arrays.append(np.full((self._size, *column.shape), value, column.dtype))
            self.columns = (*self.columns, column)
            self.row_nbytes += column.nbytes

    def free(self, places: Places) -> None:
        """Forget rows, each of which is in a block of its own."""
        with self._lock:
            self._set_aside(places)
            self._flags[self._block_of(places)] = 0

    def used(self) -> Places:
        """Return where there are rows."""
        return self._places_of(np.flatnonzero(self._flags & _USED))

    def column(self, number: int) -> Array:
        """Return what all places have in a column, not to be kept: it moves when this grows."""
        return self._arrays[number]

    def read(self, places: Places | slice, start: int = 0, stop: int | None = None) -> list[Array]:
        """Return copies of some columns of rows."""
        if isinstance(places, slice):
            return [array[places].copy() for array in self._arrays[start:stop]]
        return [array.take(places, 0, mode="clip") for array in self._arrays[start:stop]]

    def read_into(self, places: Places, buffers: Sequence[Array], start: int = 0) -> None:
        """Copy the columns from `start` on of rows into buffers of as many rows, one for each column."""
        for array, buffer in zip(self._arrays[start:], buffers, strict=False):
            array.take(places, 0, buffer, "clip")

    def write(self, places: Places | slice, arrays: Sequence[Array], start: int = 0) -> None:
        """Replace columns of rows from `start` on, as many as are given."""
        with self._lock:
            self._set_aside(places)  # after which nobody is still to take them
            for array, values in zip(self._arrays[start:], arrays, strict=False):
                array[places] = values
            self._flags[self._block_of(places)] = _USED | _CHANGED[0] | _CHANGED[1]

    def _set_aside(self, places: Places | slice) -> None:
        for taker in self._takers:
            taker.set_aside(places)

    def _blocks(self, places: int) -> int:
        return -(-places >> self._shift)

    def _block_of(self, places: Any) -> Any:
        if isinstance(places, slice):
            return slice(places.start >> self._shift, self._blocks(places.stop))
        return places >> self._shift if self._shift else places

    def _places_of(self, blocks: Places) -> Places:
        if not self._shift:
            return blocks
        within = np.arange(1 << self._shift)
        places = ((blocks[:, None] << self._shift) + within).reshape(-1)
        return places[places < self._size]


class RowTaker:
    """Takes the rows of a store as they were at some moment, a piece at a time, while they change.

    It takes all of them, or those that have changed since it took all. See ``_row_snapshots.SnapshotPart``.
    To begin takes no time, however many rows there are: which of them are to be taken is marked window by
    window, when the first one of a window is about to change, or when it is a window's turn.

    Args:
        store: The store.
        number: Which of its takers this is.

    Attributes:
        store: As given.
    """

    def __init__(self, store: RowStore, number: int) -> None:
        self.store = store
        self._changed, self._pending = _CHANGED[number], _PENDING[number]
        self._aside: list[tuple[Places, tuple[Array, ...]]] = []
        self._cursor: int | None = None  # the next block to take
        self._whole = False
        self._unmarked = np.zeros(0, bool)  # of each window, whether its blocks are still to be marked
        self._rows = 0  # how many rows of marked windows are still to be taken
        self._width = len(store.columns)  # how many columns there were at the beginning

    @property
    def layout(self) -> RowLayout:
        """The layout of a row."""
        return self.store.layout

    @property
    def nbytes(self) -> int:
        """The memory that the rows take, in bytes."""
        return self.store.nbytes

    @property
    def changed_nbytes(self) -> int:
        """The size of the rows written since the last time that all were taken, about, in bytes."""
        blocks = int(np.count_nonzero(self.store._flags & self._changed))
        return (blocks << self.store._shift) * self.store.row_nbytes

    @property
    def gone(self) -> int:
        """The number of removed rows still to be reported: 0."""
        return 0

    @property
    def rows(self) -> int:
        """The number of rows still to be taken, which is known once all of them are marked."""
        for window in np.flatnonzero(self._unmarked).tolist():
            with self.store._lock:
                self._mark(window)
        return self._rows

    def begin(self, whole: bool) -> None:
        """Begin to take rows as they are now: all, or those written since the last time that it was all."""
        store = self.store
        with store._lock:
            self._whole, self._rows = whole, 0
            self._unmarked = np.ones(-(-len(store._flags) // _MARKED), bool)
            self._cursor, self._width = 0, len(store.columns)

    def take(self) -> tuple[Places, tuple[Array, ...]] | None:
        """Return the next rows, and their places; None if there are no more."""
        with self.store._lock:
            return self._take()

    def stop(self) -> None:
        """Take no more."""
        with self.store._lock:
            if self._cursor is not None:
                self.store._flags &= ~self._pending
                self._cursor = None
            self._unmarked[:] = False
            self._aside.clear()

    def restore(self, places: Places, arrays: Sequence[Array]) -> None:
        """Write back what `take` has returned."""
        self.store.write(places, arrays)

    def set_aside(self, places: Places | slice) -> None:
        """Copy rows that are still to be taken, before they change; the store is locked."""
        if self._cursor is None:
            return
        store = self.store
        blocks = store._block_of(places)
        if isinstance(blocks, slice):
            blocks = np.arange(blocks.start, blocks.stop)
        self._mark_windows(np.unique(blocks // _MARKED))
        pending = np.unique(blocks[store._flags[blocks] & self._pending != 0])
        if pending.size:
            rows = store._places_of(pending)
            self._aside.append((rows, tuple(store.read(rows, 0, self._width))))
            store._flags[pending] &= ~self._pending

    def _mark_windows(self, windows: Places) -> None:
        """Mark windows; in those by which the store has grown meanwhile is nothing to be taken."""
        windows = windows[windows < len(self._unmarked)]
        for window in windows[self._unmarked[windows]].tolist():
            self._mark(window)

    def _mark(self, window: int) -> None:
        """Mark what is to be taken of a window, once, before it changes; the store is locked."""
        if not self._unmarked[window]:
            return
        self._unmarked[window] = False
        store, start = self.store, window * _MARKED
        flags = store._flags[start : start + _MARKED]
        if self._whole:
            flags &= ~self._changed
            flags |= (flags & _USED) * self._pending
        else:
            flags |= (flags & self._changed) << np.uint8(1)
        self._rows += int(np.count_nonzero(flags & self._pending)) << store._shift
        beyond = (start + len(flags) << store._shift) - len(store)
        if beyond > 0 and flags[-1] & self._pending:  # the last block may have fewer places
            self._rows -= beyond

    def _take(self) -> tuple[Places, tuple[Array, ...]] | None:
        if self._aside:
            found = self._aside.pop()
            self._rows -= len(found[0])
            return found
        store = self.store
        flags = store._flags
        most = max(1, _PIECE_BYTES // store.row_nbytes >> store._shift)
        while self._cursor is not None and self._cursor < len(flags):
            stop = self._cursor + _WINDOW * most
            self._mark_windows(np.arange(self._cursor // _MARKED, -(-stop // _MARKED)))
            window = flags[self._cursor : stop]
            blocks = np.flatnonzero(window & self._pending)[:most]
            window[blocks] &= ~self._pending
            places = store._places_of(blocks + self._cursor)
            self._cursor += int(blocks[-1]) + 1 if len(blocks) == most else len(window)
            if places.size:
                self._rows -= places.size
                return places, tuple(store.read(as_slice(places), 0, self._width))
        self._cursor = None
        return None


class Columns:
    """Columns of stores, side by side, of rows at the same places.

    Args:
        stores: The stores.
        start: The first column of each.
        stop: The column after the last of each; None for all that there are now.
    """

    def __init__(self, stores: Sequence[RowStore], start: int = 0, stop: int | None = None) -> None:
        self._stores = stores
        self._start = start
        self._counts = [len(store.columns[start:stop]) for store in stores]

    @property
    def columns(self) -> tuple[Column, ...]:
        """The layout of a row."""
        start = self._start
        return tuple(
            column
            for store, count in zip(self._stores, self._counts, strict=True)
            for column in store.columns[start : start + count]
        )

    def read_into(self, places: Places, buffers: Sequence[Array]) -> None:
        """Copy rows into buffers of as many rows."""
        left = iter(buffers)
        for store, count in zip(self._stores, self._counts, strict=True):
            store.read_into(places, list(itertools.islice(left, count)), self._start)

    def write(self, places: Places, arrays: Sequence[Array]) -> None:
        """Replace rows."""
        left = iter(arrays)
        for store, count in zip(self._stores, self._counts, strict=True):
            store.write(places, list(itertools.islice(left, count)), self._start)
