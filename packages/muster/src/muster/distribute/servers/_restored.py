"""Restore variables on servers from a checkpoint; hashed tables in pieces, each to the server of its ids."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from muster._errors import CheckpointMismatchError
from muster.checkpoint import Checkpoint, SavedTable
from muster.checkpoint.objects import Variable, assign_saved, named_variables
from muster.distribute.engine._hashed_columns import ColumnKind, no_rows, rows_of_part
from muster.distribute.servers._hashed_tables import TableColumn
from muster.distribute.servers._stored_variables import StoredVariables
from muster.program.variables import storage_of
from muster.ps.contents import StoredName


class _Own(NamedTuple):
    """A variable of this program that stands for rows or slots of a hashed table."""

    variable: Any
    storage: StoredVariables
    column: TableColumn


def restore_variables(checkpoint: Checkpoint, objects: Mapping[str, Iterable[Variable]], advice: str) -> None:
    """Set variables to their values in a checkpoint, matched by object and order, as `assign_saved` does.

    Hashed tables and their slots are matched apart from others. They get the rows of the checkpoint in place
    of what they have, and slots that are not in it begin anew.

    Args:
        checkpoint: The checkpoint, read without its tables.
        objects: The variables of each object, by the object's name.
        advice: What to do if they do not match, for the message.

    Raises:
        CheckpointMismatchError: The checkpoint has other variables, or other shapes. Nothing was set.
        CheckpointError: A table cannot be read.
        ValueError: The name of an object contains "/".
    """
    listed = {name: [*variables] for name, variables in objects.items()}
    own = {name: each for name, v in named_variables(listed).items() if (each := _hashed(v)) is not None}
    matches = _matched(checkpoint, own, advice)
    hashed = {id(each.variable) for each in own.values()}
    rest = {name: [v for v in each if id(v) not in hashed] for name, each in listed.items()}
    assign_saved(checkpoint, rest, advice)
    tables = {id(each.variable): name for name, each in own.items() if not each.column.number}
    for name in tables.values():
        together = [key for key in own if _are_together(own[key], own[name])]
        _restore(own[name], matches[name][0], {own[key].column.number: matches[key][1] for key in together})


def _are_together(one: _Own, other: _Own) -> bool:
    """Return whether two variables are of the same table."""
    return one.storage is other.storage and one.column.table == other.column.table


def _hashed(variable: Any) -> _Own | None:
    storage = storage_of(variable)
    if not isinstance(storage, StoredVariables):
        return None
    column = storage.hashed_column_of(variable)
    return None if column is None else _Own(variable, storage, column)


def _matched(
    checkpoint: Checkpoint, own: Mapping[str, _Own], advice: str
) -> dict[str, tuple[SavedTable, str]]:
    """Return the table, and the variable of it, that each of some variables is in a checkpoint, by name."""
    saved = {column: table for table in checkpoint.tables.values() for column in table.columns}
    matches: dict[str, tuple[SavedTable, str]] = {}
    left = sorted(saved, key=lambda column: saved[column].place(column))
    for name, (_, _, column) in own.items():
        match = next((each for each in left if _object_of(each) == _object_of(name)), None)
        if match is None or saved[match].shape(match) != column.shape:
            found = "is not there" if match is None else f"is {match} there, {saved[match].shape(match)}"
            raise CheckpointMismatchError(
                f"{checkpoint.path} is of another model: {name}, of a HashEmbedding, {found}; here its rows "
                f"have shape {column.shape}. {advice}"
            )
        left.remove(match)
        matches[name] = saved[match], match
    if left:
        raise CheckpointMismatchError(
            f"{checkpoint.path} is of another model: it has {len(left)} tables and slots of HashEmbedding "
            f"that are not here, such as {left[0]}. {advice}"
        )
    for name, each in own.items():
        tables = {
            matches[key][0].name
            for key in own
            if _are_together(own[key], each) and not own[key].column.number
        }
        if matches[name][0].name not in tables:
            raise CheckpointMismatchError(
                f"{checkpoint.path} is of another model: {matches[name][1]} there, which {name} would be, "
                f"belongs to {matches[name][0].name}. {advice}"
            )
    return matches


def _object_of(name: str) -> str:
    return name.partition("/")[0]


def _restore(own: _Own, saved: SavedTable, names: Mapping[int, str]) -> None:
    """Give a table the rows of a checkpoint.

    Args:
        own: Its variable.
        saved: The table there.
        names: What each of its columns is called there.
    """
    servers, name = own.storage.servers, own.column.table
    columns = [own.storage.hashed_column_of(each) for each in own.storage.columns_of(own.variable)]
    kinds = [ColumnKind(str(c.number), c.shape, c.dtype, c.initial) for c in columns if c is not None]
    there = {str(number): column for number, column in sorted(names.items())}
    with own.storage.restoring(own.variable) as store:
        none = no_rows(kinds, saved.clock())
        for server in range(servers):
            store.assign_hashed(
                StoredName(server, name), none.ids, none.columns, clears=True, clock=none.clock
            )
        for piece in saved.pieces([*there.values()]):
            for server in range(servers):
                if (rows := rows_of_part(piece, kinds, there, server, servers)) is not None:
                    store.assign_hashed(
                        StoredName(server, name),
                        rows.ids,
                        rows.columns,
                        noted=not rows.waiting,
                        waiting=rows.waiting,
                    )
