"""The state of a worker beside parameter servers, and which of a checkpoint's values each server writes."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from muster.checkpoint import Parts, PartsUnderWay, Piece, VariableRecord
from muster.distribute.engine import ServedState, StateStore
from muster.distribute.engine._shards import Division
from muster.distribute.engine._traced import Reads, State
from muster.distribute.servers._remote_servers import RemoteServers
from muster.ps import OPEN_TICKETS, open_tickets


class ServedStore(StateStore):
    """Keeps what the steps of `ServedEngine` return: a worker's own variables, and where the others are.

    Args:
        store: Has the values to start from, until the first step has met the servers.
        servers: The servers.
    """

    def __init__(self, store: StateStore, servers: RemoteServers) -> None:
        self._store = store
        self._servers = servers

    @property
    def keys(self) -> Sequence[Hashable | None]:  # type: ignore[override]
        return self._store.keys

    def take(self) -> tuple[State, Reads]:
        return self._store.take()

    def give(self, state: State) -> None:
        self._store.give(state)

    def peek(self) -> State:
        return self._store.peek()

    def renew(self) -> bool:
        state = self.peek()
        if not isinstance(state, ServedState):
            return False
        self.give(state.renewed())
        return True

    def to_save(self) -> tuple[Mapping[str, Any], Parts | None]:
        state = self.peek()
        if not isinstance(state, ServedState):
            return state, None
        return state.local, ServedParts(self._servers, state.division)


class ServedParts:
    """The variables on parameter servers, as `Parts` of a checkpoint: each server writes its rows.

    Args:
        servers: The servers, which hold values.
        division: Which rows each has.
    """

    def __init__(self, servers: RemoteServers, division: Division) -> None:
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
        if self._servers.shared is not None:
            tickets = open_tickets(())
            piece = Piece(files[0], OPEN_TICKETS, 0, len(tickets))
            records[OPEN_TICKETS] = VariableRecord(tickets.shape, tickets.dtype.name, (piece,))
        return records

    def begin(self, folder: str, token: str, files: Sequence[str]) -> PartsUnderWay | None:
        """Let the servers write the values that they have now; None if one does not see the folder."""
        return self._servers.save(folder, token, files)

    def read(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """Return all values; each server's are those of one instant."""
        read = self._division.read(self._servers.read())
        values = {path: np.asarray(value) for path, value in read.items()}
        if self._servers.shared is not None:
            values[OPEN_TICKETS] = open_tickets(self._servers.open)
        return values
