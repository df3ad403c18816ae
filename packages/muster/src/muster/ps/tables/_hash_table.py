"""A table of 64-bit ids without a vocabulary: adds rows at their first use, and may evict them."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from muster.ps._flat_layout import Array
from muster.ps._memory import memory_bytes
from muster.ps.tables._ids import Ids, owners
from muster.ps.tables._initial_rows import make_rows
from muster.ps.tables._keeping import Keeping, least, most_candidates
from muster.ps.tables._keyed_rows import KeyedRows
from muster.ps.tables._row_store import Columns, Places
from muster.ps.tables._spec import Column, TableSpec

# What is kept for each id beside its row: the clock when it last occurred, and how often it did. The clock
# counts pushes; ages are right also after it has begun again at zero.
NOTE = Column((2,), np.dtype(np.uint32))
# Where that and the row itself are: behind the id.
_NOTES, _ROW = 1, 2
_MOST = np.iinfo(np.uint32).max

Mask = npt.NDArray[np.bool_]


class Trained(NamedTuple):
    """The indices of rows to update.

    Attributes:
        places: The places.
        chosen: Which of the ids that were given have them; None for all.
    """

    places: Places
    chosen: Mask | None


class HashTable:
    """The rows of those ids that are a server's, with their slots.

    Looking up changes nothing: rows appear when they are first pushed to. Until then a look-up gives what
    they will begin with; but an id that must occur several times first is looked up as zeros until the
    occurrence at which it gets its row, and gradients for it are dropped. So rare ids add nothing to a model,
    as in recommender systems such as DeepRec, and are nothing that it could learn by heart.

    Ids that wait for more occurrences are counted, at most half as many as there are rows (65,536 in a small
    table): beyond that, those that have not occurred for longest are forgotten. They are forgotten, too, by
    the age at which rows are.

    Args:
        spec: What its rows consist of.
        keeping: Which ids get rows, and for how long.
        server: Which of the servers of the table this is.
        servers: How many there are.

    Attributes:
        clock: How many pushes it has seen.
        admitted: How many ids have got rows by pushes, in this process.
        evicted: How many rows were given up.
    """

    def __init__(
        self,
        spec: TableSpec,
        keeping: Keeping,
        *,
        server: int = 0,
        servers: int = 1,
    ) -> None:
        self.spec = spec
        self.keeping = keeping
        self._server, self._servers = server, servers
        self._rows = KeyedRows((NOTE, *spec.columns))
        self._candidates = KeyedRows((NOTE,))
        self.clock = self.admitted = self.evicted = 0
        self._memory = memory_bytes()

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def parts(self) -> tuple[KeyedRows, KeyedRows]:
        """The rows, and the ids that wait for more occurrences, for snapshots; `clock` belongs to them."""
        return self._rows, self._candidates

    @property
    def columns(self) -> Columns:
        """The rows and their slots, by place."""
        return self.first_columns(len(self.spec.columns))

    def first_columns(self, count: int) -> Columns:
        """Return the rows and their first slots, by place: so many columns."""
        return Columns([self._rows.store], _ROW, _ROW + count)

    @property
    def candidates(self) -> int:
        """The number of ids without a row yet, which wait for more occurrences."""
        return len(self._candidates)

    @property
    def nbytes(self) -> int:
        """The memory that this takes, in bytes."""
        return self._rows.nbytes + self._candidates.nbytes

    def look_up(self, ids: Ids) -> Array:
        """Return the rows of ids.

        Args:
            ids: Integers of shape (n,), in any order, also the same ones several times.

        Returns:
            An array of n rows, which is the caller's.

        Raises:
            ValueError: An id is another server's.
        """
        self.check(ids)
        places = self._rows.find(ids)
        (rows,) = self._rows.store.read(places, _ROW, _ROW + 1)
        missing = np.flatnonzero(places < 0)
        if missing.size:
            initial = self._initial(ids[missing])[0]
            if self.keeping.admit_after > 1:
                initial[self._counted(ids[missing]) + 1 < self.keeping.admit_after] = 0
            rows[missing] = initial
        return rows

    def prepare(self, ids: Ids) -> Callable[[], Trained]:
        """Return what counts a push, which must follow before anything else changes this.

        It makes rows for ids that occur often enough now, and others may lose theirs; all rows grow older,
        also if there are no ids. It returns where the rows of ids are.

        Args:
            ids: Integers of shape (n,), ascending.

        Raises:
            ValueError: An id is another server's, or more rows would be changed at once than there may be.
            MemoryError: There is not enough for more rows.
        """
        self.check(ids)
        places = self._rows.find(ids)
        counted = np.ones(len(ids), np.uint32)
        admitted = missing = places < 0
        if self.keeping.admit_after > 1:
            counted[missing] += self._counted(ids[missing])
            admitted = missing & (counted >= self.keeping.admit_after)
        self._require_room(int(np.count_nonzero(~missing)), int(np.count_nonzero(admitted)))
        return functools.partial(self._admit, ids, places, counted, admitted)

    def _admit(self, ids: Ids, places: Places, counted: Array, admitted: Mask) -> Trained:
        missing = places < 0
        self.clock = (self.clock + 1) % (_MOST + 1)
        if self.keeping.admit_after > 1:
            waiting = missing & ~admitted
            self._candidates.discard(ids[admitted])
            self._candidates.put(ids[waiting], [self._noted(counted[waiting])])
        self._touch(places[~missing])
        fresh = ids[admitted]
        self._make_room(places[~missing], len(fresh))
        places[admitted] = self._rows.add(fresh, [self._noted(counted[admitted]), *self._initial(fresh)])
        self.admitted += len(fresh)
        self._forget()
        trained = admitted | ~missing
        return Trained(places[trained], trained)

    def read(self, start: int, count: int) -> tuple[int, Ids, list[Array]]:
        """Return some rows, where to go on, 0 for nowhere, and their ids.

        Args:
            start: Where to begin: 0, and then where it went on.
            count: How many rows, at most.
        """
        places = self._rows.store.used()
        begin = int(np.searchsorted(places, start))
        some = places[begin : begin + count]
        following = int(some[-1]) + 1 if begin + count < len(places) and len(some) else 0
        ids = self._rows.ids(some)
        order = np.argsort(ids)
        return following, ids[order], self._rows.store.read(some[order], _ROW)

    def assign(self, ids: Ids, columns: Sequence[Array], notes: Array | None = None) -> None:
        """Give rows and their slots other values, and make them where there are none.

        Args:
            ids: Integers of shape (n,), ascending.
            columns: The rows, and each of their slots.
            notes: The clock when each id last occurred, and how often it did, uint32 of shape (n, 2); None
                for now, and just often enough.

        Raises:
            ValueError: An id is another server's.
            MemoryError: There is not enough for more rows.
        """
        self.check(ids)
        missing = int(np.count_nonzero(self._rows.find(ids) < 0))
        _check_fits(self.spec, len(self) + missing, self._rows.nbytes_with(missing), self._memory)
        self._candidates.discard(ids)
        if notes is None:
            notes = self._noted(np.full(len(ids), self.keeping.admit_after))
        self._rows.put(ids, [notes, *columns])

    def assign_candidates(self, ids: Ids, notes: Array) -> None:
        """Let ids without rows have occurred; the arguments are those of `assign`."""
        self.check(ids)
        self._candidates.put(ids, [notes])

    def clear(self) -> None:
        """Forget all rows, and all ids that wait for more occurrences."""
        for rows in self.parts:
            rows.remove(rows.store.used())

    def add_slots(self, spec: TableSpec) -> None:
        """Have further slots, with their initial values in all rows.

        Args:
            spec: What the rows consist of then.

        Raises:
            MemoryError: There is not enough for that.
        """
        new = spec.slots[len(self.spec.slots) :]
        columns = spec.columns[len(self.spec.columns) :]
        places = len(self._rows.store)
        needed = self._rows.nbytes + places * sum(column.nbytes for column in columns)
        _check_fits(spec, len(self), needed, self._memory)
        for slot, column in zip(new, columns, strict=True):
            self._rows.store.add(column, slot.initial)
        self.spec = spec

    def check(self, ids: Ids) -> None:
        """Raise ValueError if an id is another server's."""
        here = self._are_here(ids)
        if not here.all():
            wrong = ids[~here][0]
            raise ValueError(
                f"id {wrong} of table {self.spec.name} is not in part {self._server} of {self._servers}, but "
                f"in part {owners(ids[~here][:1], self._servers)[0]}"
            )

    def _are_here(self, ids: Ids) -> Mask:
        if self._servers == 1:
            return np.ones(len(ids), bool)
        here: Mask = owners(ids, self._servers) == self._server
        return here

    def _initial(self, ids: Ids) -> list[Array]:
        return [
            make_rows(initial, ids, column.shape, column.dtype)
            for initial, column in zip(self.spec.initials, self.spec.columns, strict=True)
        ]

    def _counted(self, ids: Ids) -> Array:
        """Return how often ids without rows have occurred."""
        places = self._candidates.find(ids)
        counts = self._read_notes(self._candidates, places)[:, 1]
        counts[places < 0] = 0
        return counts

    def _noted(self, counts: Array) -> Array:
        """Return the notes of ids that occur now, and have occurred so often."""
        notes = np.empty((len(counts), 2), np.uint32)
        notes[:, 0], notes[:, 1] = self.clock, counts
        return notes

    def _read_notes(self, rows: KeyedRows, places: Places) -> Array:
        (notes,) = rows.store.read(places, _NOTES, _NOTES + 1)
        return notes

    def _touch(self, places: Places) -> None:
        """Note that rows occur once more."""
        before = self._read_notes(self._rows, places)[:, 1]
        self._rows.store.write(places, [self._noted(before + (before < _MOST))], _NOTES)

    def _require_room(self, kept: int, more: int) -> None:
        """Raise unless rows can be added to those that a push changes."""
        most = self.keeping.max_rows
        if most is not None and kept + more > most:
            raise ValueError(
                f"a push changes {kept + more} rows of table {self.spec.name}, of which at most {most} are "
                "kept on a server. Raise max_rows, or make batches smaller"
            )
        if most is None or len(self) + more <= most:
            _check_fits(self.spec, len(self) + more, self._rows.nbytes_with(more), self._memory)

    def _make_room(self, kept: Places, more: int) -> None:
        """Give up rows, if there would be too many, other than those at some places."""
        excess = self.keeping.excess(len(self) + more, len(kept) + more)
        if excess:
            self._evict(self._rows, excess, kept, by_count=self.keeping.evict == "frequently")

    def _forget(self) -> None:
        """Give up rows and candidates of too great an age, and candidates that are too many."""
        if (limit := self.keeping.age_limit(self.clock)) is not None:
            for rows in self.parts:
                used = rows.store.used()
                self._remove(rows, used[self._ages(rows, used) > limit])
        if len(self._candidates) > (most := most_candidates(len(self))):
            self._evict(self._candidates, len(self._candidates) - most + most // 4)

    def _evict(
        self, rows: KeyedRows, count: int, kept: Places | None = None, *, by_count: bool = False
    ) -> None:
        used = rows.store.used()
        ranks = np.uint32(_MOST) - self._ages(rows, used)
        if by_count:
            ranks = (rows.store.column(_NOTES)[used, 1].astype(np.uint64) << np.uint64(32)) | ranks
        if kept is not None:
            ranks[np.searchsorted(used, kept)] = np.iinfo(ranks.dtype).max
        self._remove(rows, used[least(count, ranks, rows.ids(used))])

    def _remove(self, rows: KeyedRows, places: Places) -> None:
        rows.remove(places)
        if rows is self._rows:
            self.evicted += len(places)

    def _ages(self, rows: KeyedRows, places: Places) -> npt.NDArray[np.uint32]:
        """Return how many pushes have come since rows changed."""
        ages: npt.NDArray[np.uint32] = np.uint32(self.clock) - rows.store.column(_NOTES)[places, 0]
        return ages


def _check_fits(spec: TableSpec, rows: int, needed: int, limit: int) -> None:
    """Raise MemoryError if this machine cannot hold a table.

    Args:
        spec: The table.
        rows: How many rows it is to have here.
        needed: The bytes that they take.
        limit: The memory that there is, in bytes.
    """
    if needed > limit:
        raise MemoryError(
            f"{rows} rows of table {spec.name}, of {spec.row_nbytes} bytes each with their slots, take "
            f"{needed / 1e9:.3g} GB, and this server has {limit / 1e9:.3g} GB of memory. Give the job "
            f"{math.ceil(needed / limit)} times as many parameter servers, and divide the table among them; "
            "or bound the rows of a hashed table"
        )
