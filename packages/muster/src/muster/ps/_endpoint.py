"""A service's state: a machine for each purpose of connections, and the open connections."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from muster._arrays import dtype_named
from muster.net import Connection, Hello
from muster.ps._flat_layout import Array, allocate
from muster.ps._messages import Caller, name_of
from muster.ps._replies import RefusedError, Reply
from muster.ps._wire import Incoming, Sizes


class Machine(Protocol):
    """Answers the requests of connections for one purpose.

    Attributes:
        header: The type of the headers of requests.
        first: The type of the first request of a connection.
        repeated: That of requests whose buffers are used again for the next one of the same sizes.
        many: Whether a process may have many connections; else its last one replaces the one before.
    """

    header: ClassVar[type[Any]]
    first: ClassVar[type[Any]]
    repeated: ClassVar[type[Any]]
    many: ClassVar[bool]

    @property
    def name(self) -> str:
        """The task, for the log."""

    @property
    def ended(self) -> bool:
        """True if the job has ended."""

    def check_sizes(self, message: Any, sizes: Sizes) -> None:
        """Raise RefusedError if other buffers are to follow a request than fit it."""

    def handle(self, caller: Caller, message: Any, arrays: Sequence[Array], now: float) -> list[Reply]:
        """Return the answers that a request makes possible."""

    def lost(self, caller: Caller) -> list[Reply]:
        """Forget a caller that is gone, and return the answers that this makes possible."""

    def recall(self, now: float) -> list[Reply]:
        """Return the answers that time makes possible."""


_M = TypeVar("_M", bound=Machine)
_Kept = TypeVar("_Kept", bound=Machine, contravariant=True)


class Keeps(Protocol[_Kept]):
    """Writes snapshots of a machine."""

    def look(self, machine: _Kept) -> None:
        """Take one if it is due."""

    def remove(self) -> None:
        """Remove them: the job has ended."""


class Endpoint(Generic[_M]):
    """A machine with what its service keeps beside it.

    Args:
        machine: What answers; nobody but the service may use it meanwhile.
        saver: Writes snapshots; None for none.
        report: Called about once a second, on the service's thread.
        next_secs: How long to wait for the next caller when all are gone, in seconds; None for ever.

    Attributes:
        joined: The connections on which the first request has come.
        was_joined: Whether there was one.
    """

    def __init__(
        self,
        machine: _M,
        saver: Keeps[_M] | None = None,
        report: Callable[[], None] | None = None,
        next_secs: float | None = None,
    ) -> None:
        self.machine = machine
        self.report = report
        self.next_secs = next_secs
        self.was_joined = False
        self.joined: dict[Caller, Peer] = {}
        self._saver = saver
        self._numbers = itertools.count(1) if machine.many else itertools.repeat(0)

    def caller(self, hello: Hello) -> Caller:
        """Return who calls on a new connection."""
        return Caller(hello.name, hello.run, next(self._numbers))

    def save(self) -> None:
        """Take a snapshot if one is due."""
        if self._saver is not None and not self.machine.ended:
            self._saver.look(self.machine)

    def remove_snapshots(self) -> None:
        """Remove the snapshots: the job has ended."""
        if self._saver is not None:
            self._saver.remove()


class Peer:
    """A connection, and what is being received and sent there.

    Args:
        desk: Whom it is to.
        connection: The connection.
        caller: Who calls.
    """

    def __init__(self, desk: Endpoint[Any], connection: Connection, caller: Caller) -> None:
        self.desk = desk
        self.connection = connection
        self.caller = caller
        self.incoming = Incoming(connection, desk.machine.header, self._place)
        self.outgoing: list[memoryview] = []
        self.refused_at: float | None = None
        self._sizes: Sizes = ()
        self._arrays: list[Array] = []  # of these sizes, for what comes again and again

    def _place(self, message: Any, sizes: Sizes) -> Sequence[Array]:
        if self.desk.joined.get(self.caller) is not self and not isinstance(message, self.desk.machine.first):
            raise RefusedError(f"it sends a {name_of(message)} before it joins")
        self.desk.machine.check_sizes(message, sizes)
        if not isinstance(message, self.desk.machine.repeated):  # the others come once
            return [allocate(size, dtype_named(name)) for name, size in sizes]
        if self._sizes != sizes:
            # Those of the same sizes stay: the number of rows may be another one each time.
            known = dict(zip(enumerate(self._sizes), self._arrays, strict=True))
            self._arrays = [
                known[place] if place in known else allocate(place[1][1], dtype_named(place[1][0]))
                for place in enumerate(sizes)
            ]
            self._sizes = sizes
        return self._arrays
