"""Rows of tables that functions look up and change."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from muster._arrays import dtype_named
from muster.ps._array_spec import ArraySpec
from muster.ps._flat_layout import Array
from muster.ps.contents._function_layout import RowPush, row_of
from muster.ps.contents._stored import TableSignature, TableUse
from muster.ps.contents._values import StoredValues, check_ids
from muster.ps.tables import Column, Columns, Ids, RowUpdate, Trained, Updater


class UsedRows(Protocol):
    """A table that functions use by rows. What does not fit is refused before anything changes."""

    @property
    def row(self) -> ArraySpec:
        """A row of it."""

    def columns(self, use: TableUse, /) -> Columns:
        """Return its rows and those of their slots that a function takes, by place."""

    def find(self, ids: Ids) -> Callable[[], Array]:
        """Return what looks the rows of ids up, as they are then; they are the caller's."""

    def prepare(self, ids: Ids) -> Callable[[], Trained]:
        """Return what is to be called when the rows of ids are changed, and says where they are."""


class NumberedRows:
    """A table whose ids are the numbers of its rows.

    Args:
        use: The names of its arrays, and its first id.
        values: The arrays, which are held by rows from now on.
    """

    def __init__(self, use: TableUse, values: StoredValues) -> None:
        stores = [values.rows(name) for name in use.columns]
        self.row = row_of(values.specs[use.columns[0]])
        self._columns = Columns(stores)
        self._rows = stores[0]
        self._start = use.start

    def columns(self, use: TableUse) -> Columns:
        """Return its rows and their slots, by place."""
        return self._columns

    def find(self, ids: Ids) -> Callable[[], Array]:
        """Return what looks the rows of ids up."""
        places = self._places(ids)
        return lambda: self._rows.read(places)[0]

    def prepare(self, ids: Ids) -> Callable[[], Trained]:
        """Return what says where the rows of ids are."""
        trained = Trained(self._places(ids), None)
        return lambda: trained

    def _places(self, ids: Ids) -> Ids:
        check_ids(self.row.name, ids, self._start, self._start + len(self._rows))
        return ids - self._start


class RowUse:
    """A function's use of a table.

    Args:
        use: What the function says.
        table: The table.
        values: The arrays that its update reads.
        update: Its update, compiled; None if rows are looked up only.
    """

    def __init__(
        self, use: TableUse, table: UsedRows, values: StoredValues, update: RowUpdate | None
    ) -> None:
        self.signature = TableSignature(table.row, use.row_pushes, use.pushed)
        self._reads = use.reads
        self._table = table
        self._values = values
        self._updater: Updater | None = None
        if update is not None:
            self._updater = Updater(table.columns(use), [column_of(each) for each in use.row_pushes], update)

    def find(self, ids: Ids) -> Callable[[], Array]:
        """Return what looks the rows of ids up, as they are then; raises RefusedError if one has none."""
        return self._table.find(ids)

    def prepare(self, pushed: RowPush) -> Callable[[], None]:
        """Return what updates the rows that are pushed; raises RefusedError if something does not fit."""
        if self._updater is None:
            return lambda: None
        return functools.partial(self._apply, self._updater, pushed, self._table.prepare(pushed.ids))

    def _apply(self, updater: Updater, pushed: RowPush, begin: Callable[[], Trained]) -> None:
        places, chosen = begin()
        if len(places):
            rows = pushed.rows if chosen is None else [each[chosen] for each in pushed.rows]
            read: dict[str, Any] = self._values.whole(self._reads)
            updater.apply(places, rows, [*(read[name] for name in self._reads), *pushed.whole])


def column_of(row: ArraySpec) -> Column:
    """Return what holds such rows."""
    return Column(row.shape, dtype_named(row.dtype))


def columns_of(specs: Sequence[ArraySpec]) -> list[Column]:
    """Return what holds the rows of arrays."""
    return [column_of(row_of(spec)) for spec in specs]
