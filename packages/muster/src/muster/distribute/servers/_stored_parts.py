"""Plan which of a coordinator's variables each parameter server writes into a checkpoint."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from muster._errors import CheckpointError
from muster.checkpoint import (
    Checkpointer,
    Parts,
    PartsUnderWay,
    Piece,
    VariableRecord,
    column_record,
    table_records,
)
from muster.checkpoint.objects import Variable, copied_values, named_variables
from muster.distribute.replicas._sharded_variable import ShardedVariable
from muster.distribute.servers._stored_variables import RowsOnServer, StoredVariables
from muster.program.variables import storage_of, together


class StoredParts:
    """Variables on parameter servers, as `Parts` of a checkpoint: each server writes its rows.

    Args:
        named: The variables, by their names in the checkpoint; all in one storage.
        storage: The storage, whose servers can write.
    """

    def __init__(self, named: Mapping[str, Variable], storage: StoredVariables) -> None:
        self._storage = storage
        self._hashed = {
            name: column
            for name, variable in named.items()
            if (column := storage.hashed_column_of(variable)) is not None
        }
        self._named = {name: each for name, each in named.items() if name not in self._hashed}
        self._placed = {name: _placed(variable, storage) for name, variable in self._named.items()}
        for name, column in self._hashed.items():
            if not column.number:
                storage.rows_of(named[name])  # servers may not have the table yet
        saved = {column.table for column in self._hashed.values() if not column.number}
        for name, column in self._hashed.items():
            if column.table not in saved:
                raise CheckpointError(
                    f"{name} has a row for each id of {column.table}, a HashEmbedding's, which is not among "
                    "what is to be saved. Give the model, too."
                )

    @property
    def writers(self) -> list[str]:
        """``ps-0`` and so on."""
        return [f"ps-{index}" for index in range(self._storage.servers)]

    def records(self, files: Sequence[str]) -> dict[str, VariableRecord]:
        """Return which rows of each variable stand in which file."""
        records = {
            name: VariableRecord(
                tuple(self._named[name].shape),
                placed[0][1].array.dtype,
                tuple(
                    Piece(files[rows.array.server], rows.array.name, first + rows.start, first + rows.stop)
                    for first, rows in placed
                ),
            )
            for name, placed in self._placed.items()
        }
        for name, column in self._hashed.items():
            records[name] = column_record(column.table, 1 + column.number, column.shape, column.dtype, files)
            if not column.number:
                records.update(table_records(name, column.table, files))
        return records

    def begin(self, folder: str, token: str, files: Sequence[str]) -> PartsUnderWay | None:
        """Let the servers write the values that they have now; None if one does not see the folder."""
        arrays: list[dict[str, None]] = [{} for _ in files]
        for _, rows in (each for placed in self._placed.values() for each in placed):
            arrays[rows.array.server][rows.array.name] = None
        for each in arrays:
            each.update({column.table: None for column in self._hashed.values()})
        return self._storage.save(folder, token, [*zip(files, arrays, strict=True)])

    def read(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """Return all values.

        Raises:
            CheckpointError: There are hashed tables, which servers alone can write.
        """
        for name in self._hashed:
            raise CheckpointError(
                f"{name} is a HashEmbedding's table, which parameter servers write into checkpoints "
                "themselves, and they do not see the folder. Save to a folder on storage that they share."
            )
        with together(_variables(self._named.values())):
            return copied_values(self._named)


def save_variables(
    writer: Checkpointer,
    step: int,
    objects: Mapping[str, Iterable[Variable]],
    metadata: Mapping[str, Any],
    *,
    wait: bool = False,
) -> str:
    """Save the variables of objects; parameter servers write the values that they hold.

    Args:
        writer: Writes the checkpoint.
        step: The number of the checkpoint.
        objects: The variables of each object, by the object's name.
        metadata: As of ``Checkpointer.save``.
        wait: Whether to wait until the checkpoint is on the disk. Else it has the values of now all the same.

    Returns:
        The path of the checkpoint.

    Raises:
        ValueError: The name of an object contains "/".
        CheckpointError: As of ``Checkpointer.save``.
    """
    named = named_variables(objects)
    own, parts = _divided(named)
    with together(_variables(own.values())):
        values = copied_values(own)
    # What belongs to hashed tables comes last.
    of_parts = {} if parts is None else parts.records(parts.writers)
    names = [*named, *(name for name in of_parts if name not in named)]
    return writer.save(step, values, metadata, parts=parts, names=names, wait=wait)


def _divided(named: Mapping[str, Variable]) -> tuple[dict[str, Variable], Parts | None]:
    """Return what this process writes, and what servers do; None for nothing."""
    served: dict[str, Variable] = {}
    chosen: StoredVariables | None = None
    for name, variable in named.items():
        storage, *others = {storage_of(each) for each in _variables([variable])}
        if isinstance(storage, StoredVariables) and storage.can_save and not others:
            chosen = chosen or storage
            if storage is chosen:
                served[name] = variable
    if chosen is None:
        return dict(named), None
    return {name: each for name, each in named.items() if name not in served}, StoredParts(served, chosen)


def _variables(named: Iterable[Any]) -> list[Any]:
    """Return the variables that variables consist of: the shards of one in shards."""
    return [
        *itertools.chain.from_iterable(
            each.variables if isinstance(each, ShardedVariable) else [each] for each in named
        )
    ]


def _placed(variable: Variable, storage: StoredVariables) -> list[tuple[int, RowsOnServer]]:
    """Return where the rows of a variable are: after which row of it those of an array of its begin."""
    placed, first = [], 0
    for shard in _variables([variable]):
        placed += [(first, rows) for rows in storage.rows_of(shard)]
        first += placed[-1][1].stop
    return placed
