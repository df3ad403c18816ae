"""The values of hashed tables of a checkpoint: to train from, to look up in, and to export."""

from collections.abc import Iterable, Mapping
from typing import Any

from muster._arrays import AnyArray, dtype_named
from muster._row_ids import HASHED_ROWS
from muster.checkpoint import Checkpoint, SavedTable
from muster.distribute.engine import SavedColumn, is_hashed
from muster.program.variables import KeyedTable, VariableSpec


def hashed_columns(checkpoint: Checkpoint) -> dict[str, SavedTable]:
    """Return the hashed tables of a checkpoint, by the names of the variables of their rows and slots."""
    return {column: table for table in checkpoint.tables.values() for column in table.columns}


def stored_shape(table: SavedTable, name: str) -> tuple[int, ...]:
    """Return the shape of the variable of a model that stands for a column of a table."""
    return (HASHED_ROWS, *table.shape(name))


def saved_column(initial: Any, table: SavedTable, name: str) -> AnyArray:
    """Return the value of a variable that training begins with, by what it would begin with otherwise."""
    column: Any = SavedColumn(initial, table, name)
    return column  # type: ignore[no-any-return]


def training_values(
    variables: Iterable[VariableSpec], initial: Mapping[str, Any], checkpoint: Checkpoint
) -> dict[str, AnyArray]:
    """Return what variables of hashed tables go on from, by their paths."""
    columns = hashed_columns(checkpoint)
    return {
        v.path: saved_column(initial[v.path], columns[v.path], v.path)
        for v in variables
        if is_hashed(v.shape) and v.path in columns
    }


def lookup_values(variables: Iterable[VariableSpec], checkpoint: Checkpoint | None) -> dict[str, Any]:
    """Return the values of hashed tables to look up in, by the paths of their variables.

    Args:
        variables: The variables of a model.
        checkpoint: Has the rows; None for none. Slots of optimizers stay there.
    """
    tables = {} if checkpoint is None else checkpoint.tables
    return {
        v.path: _keyed_table(tables[v.path], v)
        if v.path in tables
        else KeyedTable.empty(v.shape[1:], v.dtype)
        for v in variables
        if is_hashed(v.shape)
    }


def _keyed_table(table: SavedTable, variable: VariableSpec) -> KeyedTable:
    """Return the rows of a table, without what is kept beside them."""
    ids, rows = table.sorted(variable.path)
    return KeyedTable.of(ids, rows.astype(dtype_named(variable.dtype), copy=False))
