"""Rows of tables that functions look up and change."""

import functools
from collections.abc import Callable, Sequence
from typing import Protocol

from muster._arrays import dtype_named
from muster.ps._array_spec import ArraySpec
from muster.ps._flat_layout import Array
from muster.ps.contents._function_layout import RowPush, row_of
from muster.ps.contents._stored import TableSignature, TableUse
from muster.ps.contents._values import StoredValues, check_ids
from muster.ps.tables import Column, Columns, GivenRows, Ids, PaddedRows, Trained


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


class RowChange:
    """The rows of a table that a push changes, which are updated some at a time.

    Args:
        padded: Takes them out of the table.
        pushed: What is pushed for them.
        trained: Where they are.

    Attributes:
        whole: What is pushed for the table as a whole.
    """

    def __init__(self, padded: PaddedRows, pushed: RowPush, trained: Trained) -> None:
        self._padded = padded
        self._left = self._taken = trained.places
        chosen = trained.chosen
        self._rows = pushed.rows if chosen is None else [each[chosen] for each in pushed.rows]
        self.whole = pushed.whole

    @property
    def goes_on(self) -> bool:
        """True if more rows are left than can be updated at once."""
        return len(self._left) > self._padded.most

    def size(self) -> int:
        """Return of how many rows the next update is; 0 if none are left."""
        count = min(len(self._left), self._padded.most)
        return self._padded.size(count) if count else 0

    def take(self, into: GivenRows) -> None:
        """Fill arrays of that size with what the update is to be given."""
        most, rows = self._padded.most, self._rows
        self._taken = self._left
        if self.goes_on:
            self._taken, rows = self._left[:most], [each[:most] for each in rows]
            self._rows = [each[most:] for each in self._rows]
        self._left = self._left[most:]
        self._padded.take(self._taken, rows, into)

    def put(self, new: Sequence[Array]) -> None:
        """Put the rows back that were taken last, as the update has computed them."""
        self._padded.put(self._taken, new)


class RowUse:
    """A function's use of a table.

    Args:
        use: What the function says.
        table: The table.

    Attributes:
        signature: What workers read and push of it.
        padded: Takes rows out of it to update them; None if rows are looked up only.
    """

    def __init__(self, use: TableUse, table: UsedRows) -> None:
        self.signature = TableSignature(table.row, use.row_pushes, use.pushed)
        self._table = table
        self.padded: PaddedRows | None = None
        if use.update:
            self.padded = PaddedRows(table.columns(use), [column_of(each) for each in use.row_pushes])

    def find(self, ids: Ids) -> Callable[[], Array]:
        """Return what looks the rows of ids up, as they are then; raises RefusedError if one has none."""
        return self._table.find(ids)

    def prepare(self, pushed: RowPush) -> Callable[[], RowChange] | None:
        """Return what begins to change the rows that are pushed; None if rows are looked up only.

        Raises:
            RefusedError: Something does not fit.
        """
        if self.padded is None:
            return None
        return functools.partial(self._begin, self.padded, pushed, self._table.prepare(pushed.ids))

    def _begin(self, padded: PaddedRows, pushed: RowPush, begin: Callable[[], Trained]) -> RowChange:
        return RowChange(padded, pushed, begin())


def column_of(row: ArraySpec) -> Column:
    """Return what holds such rows."""
    return Column(row.shape, dtype_named(row.dtype))


def columns_of(specs: Sequence[ArraySpec]) -> list[Column]:
    """Return what holds the rows of arrays."""
    return [column_of(row_of(spec)) for spec in specs]
