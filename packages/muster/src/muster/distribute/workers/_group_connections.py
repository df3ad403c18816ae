"""Connections between the members of a group; those for another group wait, or are closed."""

import queue
import time
from collections.abc import Callable

from muster._errors import StrayPeerError
from muster.cluster.roster import Group
from muster.distribute.workers._cluster_workers import RosterWorkers
from muster.net import Connection, Hello

# How long it may take until a connection says for which group it is, in seconds.
_TELL_SECS = 10.0
_POLL_SECS = 0.2


class GroupConnections:
    """Makes and takes connections, each of which begins with the epoch of its group.

    Args:
        check: Called while it waits; raises what is to end the wait.
    """

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self._callers: queue.SimpleQueue[tuple[Connection, Hello]] = queue.SimpleQueue()
        self._early: dict[int, list[tuple[Connection, Hello]]] = {}

    def put(self, connection: Connection, hello: Hello) -> None:
        """Take a connection that another worker has made; any thread may call this."""
        self._callers.put((connection, hello))

    def dial(self, workers: RosterWorkers, group: Group, rank: int) -> Connection:
        """Connect to a member.

        Raises:
            OSError: It has gone, or is another process now.
        """
        try:
            connection = workers.dial(rank)
        except (KeyError, StrayPeerError) as exc:  # it has gone meanwhile, or is another
            raise ConnectionAbortedError(f"{workers.names[rank]} has gone") from exc
        connection.send_all([group.epoch.to_bytes(8, "big")], time.monotonic() + _TELL_SECS)
        return connection

    def accept(self, group: Group, timeout_secs: float) -> tuple[int, Connection]:
        """Wait until a member connects; return its rank and the connection.

        Raises:
            TimeoutError: None has come in time.
        """
        deadline = time.monotonic() + timeout_secs
        for epoch in [each for each in self._early if each < group.epoch]:
            for connection, _ in self._early.pop(epoch):
                connection.close()
        ranks = {(str(each.task), each.run): rank for rank, each in enumerate(group.members)}
        while True:
            self._check()
            if waiting := self._early.get(group.epoch):
                connection, hello = waiting.pop()
            else:
                try:
                    connection, hello = self._callers.get(timeout=_POLL_SECS)
                except queue.Empty as exc:
                    if time.monotonic() > deadline:
                        raise TimeoutError from exc
                    continue
                epoch = _epoch_of(connection)
                if epoch > group.epoch:
                    self._early.setdefault(epoch, []).append((connection, hello))
                    continue
                if epoch < group.epoch:
                    connection.close()
                    continue
            rank = ranks.get((hello.name, hello.run))
            if rank is not None:
                return rank, connection
            connection.close()


def _epoch_of(connection: Connection) -> int:
    """Return for which group a connection is; 0 if it does not say."""
    buffer = bytearray(8)
    try:
        connection.receive_all([memoryview(buffer)], time.monotonic() + _TELL_SECS)
    except OSError:
        return 0
    return int.from_bytes(buffer, "big")
