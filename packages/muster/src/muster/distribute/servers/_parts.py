"""The state of a worker beside parameter servers."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from muster.checkpoint import Parts
from muster.distribute.engine import ServedState, StateStore
from muster.distribute.engine._traced import Reads, State
from muster.distribute.servers._remote_servers import RemoteServers


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

    @property
    def lacks_rows(self) -> bool:
        return self._store.lacks_rows

    def to_save(self) -> tuple[Mapping[str, Any], Parts | None]:
        return self._store.to_save()
