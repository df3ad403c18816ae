"""A connection to a server: who calls, and what is being received and sent there."""

from collections.abc import Mapping, Sequence
from typing import Any

from muster._arrays import dtype_named
from muster.net import Connection, Hello
from muster.ps import _messages as messages
from muster.ps._flat_layout import Array, allocate
from muster.ps._machine import Machine
from muster.ps._messages import Caller, name_of
from muster.ps._replies import RefusedError
from muster.ps._wire import Incoming, Sizes


class Peer:
    """A connection, and what is being received and sent there.

    Args:
        machine: What answers.
        joined: The connections on which the first request has come.
        connection: The connection.
        hello: What the caller has said.

    Attributes:
        caller: Who calls; with the client's id once it has joined.
    """

    def __init__(
        self, machine: Machine, joined: Mapping[Caller, "Peer"], connection: Connection, hello: Hello
    ) -> None:
        self.connection = connection
        self.caller = Caller(hello.name, hello.run)
        self.incoming = Incoming(connection, messages.Header, self._place, messages.shows_texts)
        self.outgoing: list[memoryview] = []
        self.refused_at: float | None = None
        self._machine = machine
        self._joined = joined
        self._kept: dict[tuple[int, str], Array] = {}  # for what comes again and again, by place and dtype

    def _place(self, message: Any, sizes: Sizes) -> Sequence[Array]:
        if self._joined.get(self.caller) is not self and not isinstance(message, messages.Join):
            raise RefusedError(f"it sends a {name_of(message)} before it joins")
        self._machine.check_sizes(message, sizes)
        if not isinstance(message, messages.Push):  # the others come once
            return [allocate(size, dtype_named(name)) for name, size in sizes]
        return [self._part(place, name, size) for place, (name, size) in enumerate(sizes)]

    def _part(self, place: int, name: str, size: int) -> Array:
        """Return as many elements of an array that is kept: there may be more rows each time, or fewer."""
        kept = self._kept.get((place, name))
        if kept is None or kept.size < size:
            kept = self._kept[place, name] = allocate(size, dtype_named(name))
        return kept[:size]
