"""Which of a checkpoint's values parameter servers write."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from muster._errors import CheckpointError
from muster.checkpoint import PartsUnderWay, Piece, VariableRecord, column_record, table_records
from muster.distribute.engine._shards import Division
from muster.ps import OPEN_TICKETS, Held, SharedInput, open_tickets


class SavingServers(Protocol):
    """Parameter servers that can write what they hold into checkpoints."""

    @property
    def count(self) -> int:
        """The number of servers."""

    @property
    def shared(self) -> SharedInput | None:
        """The pass over the data, if workers share one."""

    @property
    def open(self) -> Sequence[int]:
        """The numbers of that pass's open batches before the global step, as of the last `read`."""

    def read(self) -> list[Held]:
        """Return all values of each server."""

    def save(self, folder: str, token: str, files: Sequence[str]) -> PartsUnderWay | None:
        """Let the servers write the values that they have now; None if one does not see the folder.

        Args:
            folder: The folder of a checkpoint.
            token: A file in it.
            files: The name of the file that each server is to write.
        """


class ServedParts:
    """The variables on parameter servers, as `Parts` of a checkpoint: each server writes its rows.

    Args:
        servers: The servers, which hold values.
        division: Which rows each has.
    """

    def __init__(self, servers: SavingServers, division: Division) -> None:
        self._servers = servers
        self._division = division

    @property
    def writers(self) -> list[str]:
        """``ps-0`` and so on."""
        return [f"ps-{index}" for index in range(self._servers.count)]

    def records(self, files: Sequence[str]) -> dict[str, VariableRecord]:
        """Return which rows of each variable stand in which file."""
        records = {
            path: VariableRecord(
                self._division.shape(path),
                pieces[0].dtype,
                tuple(
                    Piece(files[piece.rows.server], piece.spec.name, *piece.rows.span(piece.shape))
                    for piece in pieces
                ),
            )
            for path, pieces in self._division.held().items()
        }
        for table, kinds in self._division.tables_by_id.items():
            for number, each in enumerate(kinds):
                records[each.name] = column_record(table, 1 + number, each.shape, each.dtype, files)
            records.update(table_records(table, table, files))
        if self._servers.shared is not None:
            tickets = open_tickets(())
            piece = Piece(files[0], OPEN_TICKETS, 0, len(tickets))
            records[OPEN_TICKETS] = VariableRecord(tickets.shape, tickets.dtype.name, (piece,))
        return records

    def begin(self, folder: str, token: str, files: Sequence[str]) -> PartsUnderWay | None:
        """Let the servers write the values that they have now; None if one does not see the folder."""
        return self._servers.save(folder, token, files)

    def read(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """Return all values; each server's are those of one instant.

        Raises:
            CheckpointError: There are hashed tables, which servers alone can write.
        """
        for table in self._division.tables_by_id:
            raise CheckpointError(
                f"{table} is a hashed table, which parameter servers write into checkpoints themselves, and "
                "they do not see the folder. Give the Estimator a model_dir on storage that they share."
            )
        read = self._division.read(self._servers.read())
        values = {path: np.asarray(value) for path, value in read.items()}
        if self._servers.shared is not None:
            values[OPEN_TICKETS] = open_tickets(self._servers.open)
        return values
