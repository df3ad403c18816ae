"""Rows with 64-bit ids: added, evicted, and snapshotted while they change."""

from collections.abc import Sequence

import numpy as np

from muster.ps._flat_layout import Array
from muster.ps._row_snapshots import RowLayout
from muster.ps.tables._hash_index import HashIndex
from muster.ps.tables._ids import Ids
from muster.ps.tables._row_store import Places, RowStore, RowTaker
from muster.ps.tables._spec import Column

_ID = Column((), np.dtype(np.int64))
# How much more room there is when there is none left: a growing table moves without a copy.
_GROWTH = 1 / 16
_LEAST = 1 << 8
# How many ids of rows that are gone are kept, at least, and how many are given away at a time.
_GONE, _GONE_PIECE = 1 << 16, 1 << 16
# What can be counted in an index.
_MOST = (1 << 31) - 1


class KeyedRows:
    """Rows by id. Places of rows that were removed are used again.

    Args:
        columns: What each row has beside its id.

    Attributes:
        store: The rows, by place.
        for_snapshots: Gives rows away for the server's own snapshots.
        for_checkpoints: Gives rows away for checkpoints.
    """

    def __init__(self, columns: Sequence[Column]) -> None:
        self.store = RowStore((_ID, *columns), _LEAST)
        self.for_snapshots, self.for_checkpoints = self._takers = (
            KeyedTaker(self, self.store.for_snapshots),
            KeyedTaker(self, self.store.for_checkpoints),
        )
        self._index = HashIndex(lambda: self.store.column(0))
        self._top = 0
        self._free = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._index)

    @property
    def nbytes(self) -> int:
        """The memory that this takes, in bytes."""
        return self.store.nbytes + self._index.nbytes + self._free.nbytes

    def nbytes_with(self, more: int) -> int:
        """Return the memory of the rows with some more of them, in bytes."""
        return self._room_for(more) * self.store.row_nbytes

    def find(self, ids: Ids) -> Places:
        """Return the place of each id; -1 of those that are not here."""
        return self._index.find(ids)

    def ids(self, places: Places) -> Ids:
        """Return the ids at places."""
        (ids,) = self.store.read(places, 0, 1)
        return ids

    def add(self, ids: Ids, arrays: Sequence[Array]) -> Places:
        """Add rows of ids, all different, that are not here, and return their places."""
        if (room := self._room_for(len(ids))) > len(self.store):
            self.store.grow(room)
        count = min(len(ids), len(self._free))
        reused, self._free = self._free[:count], self._free[count:]
        top = self._top + len(ids) - count
        places = np.concatenate([reused, np.arange(self._top, top)])
        self._top = top
        self.store.write(places, [ids, *arrays])
        self._index.add(ids, places)
        return places

    def put(self, ids: Ids, arrays: Sequence[Array]) -> None:
        """Write rows of ids, all different, whether they are here or not."""
        places = self.find(ids)
        here = places >= 0
        self.store.write(places[here], [array[here] for array in arrays], 1)
        self.add(ids[~here], [array[~here] for array in arrays])

    def remove(self, places: Places) -> None:
        """Remove rows."""
        ids = self.ids(places)
        self._index.remove(ids)
        self.store.free(places)
        self._free = np.concatenate([self._free, places])
        for taker in self._takers:
            taker.note_gone(ids)

    def discard(self, ids: Ids) -> None:
        """Remove those of some ids that are here."""
        places = self.find(ids)
        self.remove(places[places >= 0])

    def _room_for(self, more: int) -> int:
        """Return how many places there must be to add rows."""
        needed = self._top + max(0, more - len(self._free))
        if needed > _MOST:
            raise MemoryError(f"A server holds at most {_MOST} rows of a table. Give the job more of them.")
        return len(self.store) if needed <= len(self.store) else min(_MOST, needed + int(needed * _GROWTH))


class KeyedTaker:
    """Gives away rows by id, as they were at some moment: see ``_row_snapshots.SnapshotPart``.

    Args:
        keyed: The rows.
        taker: Takes them by place.

    Attributes:
        store: The rows, by place.
    """

    def __init__(self, keyed: KeyedRows, taker: RowTaker) -> None:
        self.store = keyed.store
        self._keyed, self._taker = keyed, taker
        self._gone: list[Ids] | None = None  # since all were given away; None for too many, or never
        self._gone_pieces: list[Ids] = []

    @property
    def layout(self) -> RowLayout:
        """The layout of a row, without its id."""
        return self._taker.layout[1:]

    @property
    def nbytes(self) -> int:
        """The memory that the rows take, in bytes."""
        return self._keyed.nbytes

    @property
    def changed_nbytes(self) -> int | None:
        """The size of the rows written since the last time that all were given away, about, in bytes; None if
        too many are gone since to say which."""
        return None if self._gone is None else self._taker.changed_nbytes

    @property
    def rows(self) -> int:
        """The number of rows still to be taken."""
        return self._taker.rows

    @property
    def gone(self) -> int:
        """The number of ids of removed rows still to be taken."""
        return sum(map(len, self._gone_pieces))

    def note_gone(self, ids: Ids) -> None:
        """Note that rows are removed."""
        if self._gone is not None:
            self._gone.append(ids)
            if sum(map(len, self._gone)) > max(_GONE, len(self._keyed) // 2):
                self._gone = None

    def begin(self, whole: bool) -> None:
        """Begin to give away rows as they are now: all, or those written since the last time it was all."""
        self._taker.begin(whole)
        self._gone_pieces = []
        if whole:
            self._gone = []
        elif self._gone:
            self._gone = [np.unique(np.concatenate(self._gone))]
            gone = self._gone[0][self._keyed.find(self._gone[0]) < 0]
            self._gone_pieces = [gone[at : at + _GONE_PIECE] for at in range(0, len(gone), _GONE_PIECE)]

    def take(self) -> tuple[Ids, tuple[Array, ...]] | None:
        """Return the next rows to give away; None if there are no more. Those without arrays are gone."""
        if self._gone_pieces:
            return self._gone_pieces.pop(), ()
        if (found := self._taker.take()) is None:
            return None
        _, (ids, *arrays) = found
        return ids, tuple(arrays)

    def stop(self) -> None:
        """Give away no more."""
        self._gone_pieces = []
        self._taker.stop()

    def restore(self, ids: Ids, arrays: Sequence[Array]) -> None:
        """Take back what `take` gave away."""
        if arrays:
            self._keyed.put(ids, arrays)
        else:
            self._keyed.discard(ids)
