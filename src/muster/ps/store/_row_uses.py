"""Rows of tables that functions look up and change."""

from collections.abc import Sequence
from typing import Any

from muster._arrays import dtype_named
from muster.ps._flat_layout import Array
from muster.ps._plan import ArraySpec
from muster.ps.store._function_layout import RowPush, row_of
from muster.ps.store._messages import TableSignature
from muster.ps.store._stored import TableUse
from muster.ps.store._values import StoredValues, check_ids
from muster.ps.tables import Column, Columns, RowUpdate, Updater


class RowUse:
    """A function's use of a table that is held by rows.

    Args:
        use: What the function says.
        values: The arrays.
        update: Its update, compiled; None if rows are looked up only.
    """

    def __init__(self, use: TableUse, values: StoredValues, update: RowUpdate | None) -> None:
        self._use = use
        self._values = values
        stores = [values.rows(name) for name in use.columns]
        self._rows = stores[0]
        self._updater: Updater | None = None
        if update is not None:
            pushed = [column_of(each) for each in use.row_pushes]
            self._updater = Updater(Columns(stores), pushed, update)
        self.signature = TableSignature(row_of(values.specs[use.columns[0]]), use.row_pushes, use.pushed)

    def check(self, ids: Array) -> None:
        """Raise RefusedError, with a clause, if ids are not of rows that are here, in order."""
        check_ids(self._use.columns[0], ids, self._use.start, self._use.start + len(self._rows))

    def look_up(self, ids: Array) -> Array:
        """Return the rows of ids, flat; they are the caller's."""
        (rows,) = self._rows.read(ids - self._use.start)
        return rows.reshape(-1)

    def apply(self, pushed: RowPush) -> None:
        """Update the rows that are pushed, if there is an update."""
        if self._updater is not None and len(pushed.ids):
            read: dict[str, Any] = self._values.whole(self._use.reads)
            others = [*(read[name] for name in self._use.reads), *pushed.whole]
            self._updater.apply(pushed.ids - self._use.start, pushed.rows, others)


def column_of(row: ArraySpec) -> Column:
    """Return what holds such rows."""
    return Column(row.shape, dtype_named(row.dtype))


def columns_of(specs: Sequence[ArraySpec]) -> list[Column]:
    """Return what holds the rows of arrays."""
    return [column_of(row_of(spec)) for spec in specs]
