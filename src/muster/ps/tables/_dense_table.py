"""A table whose ids are the numbers of its rows, some of which a server holds."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from muster.ps._memory import memory_bytes
from muster.ps.tables._checks import as_ids, require_arrays, require_room, untrained
from muster.ps.tables._ids import Ids
from muster.ps.tables._initial_rows import CHUNK, make_rows
from muster.ps.tables._pieces import Array, Head, Piece
from muster.ps.tables._row_store import Places, RowStore
from muster.ps.tables._row_updates import RowUpdate, Updater, summed
from muster.ps.tables._snapshot import Snapshot, Snapshots
from muster.ps.tables._spec import Column, TableSpec


class _NumberedRows(RowStore):
    """Rows whose ids follow each other."""

    knows_changes = True

    def __init__(self, columns: Sequence[Column], start: int, stop: int) -> None:
        super().__init__(columns, stop - start)
        self._start = start
        self.use(slice(0, stop - start))

    def take(self) -> tuple[Ids, tuple[Array, ...]] | None:
        """Return the next rows to give away, and their ids; None if there are no more."""
        found = super().take()
        return found and (found[0] + self._start, found[1])


class DenseTable:
    """The rows from `start` to `stop` of a table, with their slots.

    Looking up and updating rows takes time for these rows alone, however many there are.

    Args:
        spec: What its rows consist of.
        start: The first row that is here.
        stop: The row after the last that is here.
        update: The update of the optimizer; None for a table that is not trained.

    Raises:
        MemoryError: There is not enough for the rows.
    """

    def __init__(self, spec: TableSpec, start: int, stop: int, update: RowUpdate | None = None) -> None:
        self.spec = spec
        self.start, self.stop = start, stop
        require_room(spec, stop - start, (stop - start) * spec.row_nbytes, memory_bytes())
        self._rows = _NumberedRows(spec.columns, start, stop)
        self._snapshots = Snapshots(spec.name, [self._rows])
        self._updater = None if update is None else Updater(spec.name, self._rows, 0, update)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """The memory that this takes, in bytes."""
        return self._rows.nbytes

    def initialize(self) -> None:
        """Give all rows their initial values. Before this, or before they are restored, they have none."""
        for begin in range(0, len(self), CHUNK):
            end = min(begin + CHUNK, len(self))
            ids = np.arange(self.start + begin, self.start + end)
            self._rows.write(
                slice(begin, end),
                [
                    make_rows(initial, ids, column.shape, column.dtype)
                    for initial, column in zip(self.spec.initials, self.spec.columns, strict=True)
                ],
            )

    def look_up(self, ids: Any) -> Array:
        """Return the rows of ids.

        Args:
            ids: Integers of shape (n,), in any order, also the same ones several times.

        Returns:
            An array of n rows, which is the caller's.

        Raises:
            ValueError: An id is of no row that is here.
        """
        (rows,) = self._rows.read(self._places(as_ids(self.spec.name, ids)), 0, 1)
        return rows

    def assign(self, ids: Any, rows: Array) -> None:
        """Replace rows, and leave their slots as they are.

        Raises:
            ValueError: An id is of no row that is here, or the rows are of another kind.
        """
        places = self._places(as_ids(self.spec.name, ids))
        require_arrays(self.spec.name, "rows", len(places), self.spec.columns[:1], [rows])
        self._rows.write(places, [rows])

    def apply(self, ids: Any, gradients: Array, numbers: Sequence[Any] = ()) -> None:
        """Update the rows of ids, and no others.

        Args:
            ids: Integers of shape (n,). The gradients of one that is there several times are added first.
            gradients: Of n rows.
            numbers: What else the update takes, such as the learning rate.

        Raises:
            ValueError: An id is of no row that is here, or something is of another kind. No row has changed.
        """
        given = as_ids(self.spec.name, ids)
        self._places(given)
        require_arrays(self.spec.name, "gradients", len(given), self.spec.columns[:1], [gradients])
        if self._updater is None:
            raise untrained(self.spec.name)
        self._updater.check(numbers)
        unique, sums, _ = summed(given, gradients)
        self._updater.apply(unique - self.start, sums, numbers)

    def snapshot(self, whole: bool = True) -> Snapshot:
        """Begin a snapshot: of all rows, or of those that changed since the last whole one was written.

        It is whole, too, if there is no whole one yet. One is taken at a time: close it.
        """
        return self._snapshots.begin(whole)

    def restore(self, head: Head, pieces: Iterable[Piece]) -> None:
        """Take up rows of a snapshot; those that are elsewhere are left out.

        Raises:
            ValueError: They are of another kind.
        """
        self._snapshots.check(head)
        for _, ids, arrays in pieces:
            here = (ids >= self.start) & (ids < self.stop)
            self._rows.write(ids[here] - self.start, [array[here] for array in arrays])

    def _places(self, ids: Ids) -> Places:
        if ids.size and (ids.min() < self.start or ids.max() >= self.stop):
            wrong = ids[(ids < self.start) | (ids >= self.stop)][0]
            raise ValueError(
                f"Id {wrong} is of no row of table {self.spec.name!r}: ids must be at least {self.start} "
                f"and less than {self.stop} here. Check the vocabulary and the input."
            )
        return ids - self.start
