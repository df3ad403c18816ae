"""The hashed tables of a store."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from muster._text import printable
from muster.ps._array_spec import ArraySpec
from muster.ps._flat_layout import Array
from muster.ps._replies import RefusedError
from muster.ps._row_snapshots import SnapshotPart
from muster.ps._statistics import TableStatistics
from muster.ps.contents._stored import StoredHash, TableUse
from muster.ps.contents._values import check_order
from muster.ps.tables import NOTE, Columns, HashTable, Ids, TableSpec, Trained


class HashedRows:
    """A hashed table, as functions use it.

    Each method raises RefusedError, with a clause, if what is asked of it is wrong.

    Args:
        stored: Describes it.

    Attributes:
        stored: As given.
        table: Its rows.
        row: A row of it.
    """

    def __init__(self, stored: StoredHash) -> None:
        self.stored = stored
        spec = stored.spec
        self.table = HashTable(spec, stored.keeping, server=stored.part, servers=stored.parts)
        self.row = stored.row

    def columns(self, use: TableUse) -> Columns:
        """Return the rows and those of their slots that a function takes, by place."""
        return self.table.first_columns(1 + use.slots)

    def extend(self, stored: StoredHash) -> None:
        """Have further slots, which begin with their initial values."""
        with _refusing():
            self.table.add_slots(stored.spec)
        self.stored = stored

    def find(self, ids: Ids) -> Callable[[], Array]:
        """Return what looks the rows of ids up, or what they will begin with."""
        check_order(self.stored.name, ids)
        with _refusing():
            self.table.check(ids)
        return functools.partial(self.table.look_up, ids.copy())

    def prepare(self, ids: Ids) -> Callable[[], Trained]:
        """Return what makes rows for ids that are pushed, and says where they are."""
        check_order(self.stored.name, ids)
        with _refusing():
            return self.table.prepare(ids)

    def assign(
        self,
        ids: Ids,
        arrays: Sequence[Array],
        *,
        clears: bool = False,
        noted: bool = False,
        waiting: bool = False,
        clock: int | None = None,
    ) -> None:
        """Give rows and their slots other values, and make them where there are none.

        Args:
            ids: The ids, ascending.
            arrays: The rows and their slots.
            clears: Whether to forget all rows first.
            noted: Whether the first array is when each id last occurred, and how often it did.
            waiting: Whether these are ids without rows: there are no other arrays.
            clock: How many pushes the table has seen; None for what it knows.
        """
        check_order(self.stored.name, ids)
        columns = [] if waiting else [*self.table.columns.columns]
        if waiting or noted:
            columns.insert(0, NOTE)
        wanted = [(each.dtype, (len(ids), *each.shape)) for each in columns]
        if [(each.dtype, each.shape) for each in arrays] != wanted:
            raise RefusedError(f"its {len(ids)} rows of {printable(self.stored.name)} are of other arrays")
        with _refusing():
            if clears:
                self.table.clear()
            if clock is not None:
                self.table.clock = clock
            if waiting:
                self.table.assign_candidates(ids, arrays[0])
            elif noted:
                self.table.assign(ids, arrays[1:], arrays[0])
            else:
                self.table.assign(ids, arrays)


class HashedTables:
    """Holds hashed tables by name; see `StoredValues`."""

    def __init__(self) -> None:
        self._tables: dict[str, HashedRows] = {}

    @property
    def described(self) -> tuple[StoredHash, ...]:
        """The descriptions of the tables, in the order of their creation."""
        return tuple(each.stored for each in self._tables.values())

    @property
    def nbytes(self) -> int:
        """The memory that they take, in bytes."""
        return sum(each.table.nbytes for each in self._tables.values())

    @property
    def tables(self) -> Mapping[str, HashedRows]:
        """The tables, by name."""
        return self._tables

    @property
    def specs(self) -> dict[str, TableSpec]:
        """The spec of each table."""
        return {name: each.stored.spec for name, each in self._tables.items()}

    def create(self, tables: Iterable[StoredHash], arrays: Mapping[str, ArraySpec]) -> None:
        """Make tables without rows, but for those that are here already, which may get further slots.

        Args:
            tables: The tables.
            arrays: What has other names here.
        """
        given = {stored.name: stored for stored in tables}
        for name, stored in given.items():
            known = self._tables.get(name)
            if name in arrays or (known is not None and not known.stored.is_extended_by(stored)):
                raise RefusedError(f"another table or array {printable(name)} is here already")
        for name, stored in given.items():
            if name not in self._tables:
                self._tables[name] = HashedRows(stored)
            elif stored != self._tables[name].stored:
                self._tables[name].extend(stored)

    def delete(self, names: Iterable[str]) -> set[str]:
        """Forget tables, if they are here, and return which were."""
        gone = {name for name in names if name in self._tables}
        for name in gone:
            del self._tables[name]
        return gone

    def named(self, name: str) -> HashedRows:
        """Return a table."""
        if name not in self._tables:
            raise RefusedError(f"there is no hashed table {printable(name)} on this server. Create it first")
        return self._tables[name]

    def parts(self) -> list[SnapshotPart]:
        """Return their rows, for a snapshot; `clocks` belong to them."""
        return [rows.for_snapshots for each in self._tables.values() for rows in each.table.parts]

    def clocks(self) -> dict[str, int]:
        """Return how many pushes each has seen."""
        return {name: each.table.clock for name, each in self._tables.items()}

    def set_clocks(self, clocks: Mapping[str, int]) -> None:
        """Say how many pushes each has seen."""
        for name, clock in clocks.items():
            self._tables[name].table.clock = clock

    def statistics(self) -> tuple[TableStatistics, ...]:
        """Return what each has counted."""
        return tuple(
            TableStatistics(
                name=name,
                rows=len(each.table),
                candidates=each.table.candidates,
                admitted=each.table.admitted,
                evicted=each.table.evicted,
                nbytes=each.table.nbytes,
            )
            for name, each in self._tables.items()
        )


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except (ValueError, MemoryError) as exc:
        raise RefusedError(printable(str(exc))) from exc
