"""Serves a coordinator: a thread for its connection, on which closures run one after the other."""

import contextlib
import functools
import logging
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax

from muster._arrays import dtype_named
from muster._errors import MissingPeerError
from muster.cluster.roster import RunningClock
from muster.distribute.closures import _messages as messages
from muster.distribute.closures._session import (
    RequestError,
    Session,
    check_sizes,
    may_send_code,
)
from muster.distribute.closures._store import Store
from muster.distribute.engine._traced import Executables
from muster.net import Connection, Hello, ProtocolError
from muster.ps import Array, Incoming, allocate, encode
from muster.ps.updates import versions

_log = logging.getLogger(__name__)

# How long a coordinator may take to read an answer, in seconds.
_SEND_SECS = 600.0
# How long to wait for the end of a closure when the service is closed, in seconds.
_CLOSE_SECS = 10.0
# How long to wait for the next coordinator when one is gone, in seconds; and how often to look.
_NEXT_SECS = 600.0
_LOOK_SECS = 1.0


class ClosureService:
    """Runs the closures of a coordinator, for one at a time.

    Args:
        name: The name of this task.
        worker: Its index.
        connect: Makes the connections to parameter servers, for a coordinator's random id; None where there
            are none.
    """

    def __init__(self, name: str, worker: int, connect: Callable[[str], Store] | None = None) -> None:
        self.name = name
        self.worker = worker
        self.executables: Executables = {}
        self.connect = connect
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._closed = self._leaving = False
        self._clock = RunningClock()
        self._alone_since: float | None = None  # when the last coordinator was lost
        self._ended = threading.Event()

    def serve(self, connection: Connection, hello: Hello) -> None:
        """Take over a connection: the handler of an `Acceptor`, on any thread."""
        with self._lock:
            if self._closed:
                connection.close()
                return
            other = next((link for link in self._links if link.hello.run != hello.run), None)
            link = _Link(self, connection, hello, other)
            for each in self._links:
                if each.hello.run == hello.run:
                    each.close()  # the coordinator was the first to see that it is broken
            self._links.add(link)
            self._alone_since = None
            link.thread.start()

    def join(self) -> None:
        """Wait until the coordinator has ended the job, or until `leave` or `close`.

        Raises:
            MissingPeerError: The coordinator is gone, and no other one has come for ten minutes.
        """
        while not self._ended.wait(_LOOK_SECS):
            now = self._clock()
            with self._lock:
                if self._leaving and not self._links:
                    return
                if self._alone_since is not None and now - self._alone_since >= _NEXT_SECS:
                    raise MissingPeerError(
                        f"{self.name} has lost its coordinator, and no other one has come for "
                        f"{_NEXT_SECS:.0f} s. Start the job again: it goes on from its last checkpoint."
                    )

    def leave(self) -> None:
        """Let `join` return once no coordinator is connected. Handlers of signals may call it, too."""
        self._leaving = True

    def end(self) -> None:
        """Let `join` return."""
        self._ended.set()

    def close(self) -> None:
        """End all connections, once the closures that run there have ended."""
        with self._lock:
            self._closed = True
            links = list(self._links)
        for link in links:
            link.close()
        for link in links:
            link.thread.join(_CLOSE_SECS)
        self.end()

    def left(self, link: "_Link") -> None:
        """Note that a connection has ended."""
        with self._lock:
            self._links.discard(link)
            if not self._links:
                self._alone_since = self._clock()


class _Link:
    """A connection of a coordinator, and the thread that serves it.

    Args:
        service: What it is a connection of.
        connection: The connection.
        hello: What the caller said.
        other: The connection of another coordinator, because of which this one is refused.
    """

    def __init__(
        self, service: ClosureService, connection: Connection, hello: Hello, other: "_Link | None"
    ) -> None:
        self.hello = hello
        self.connection = connection
        self._service = service
        self._other = other
        self._incoming = Incoming(connection, messages.Header, self._place)
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._poll.register(self._wake_in, select.POLLIN)
        self._session: Session | None = None
        self._closing = False
        self.thread = threading.Thread(target=self._run, name="muster-closures", daemon=True)

    def close(self) -> None:
        """Let the thread end."""
        self._closing = True
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # it is being woken, or has ended
            self._wake_out.send(b"!")

    def _run(self) -> None:
        try:
            self._serve()
        except (ProtocolError, RequestError) as exc:
            caller = f"{self.hello.name or 'a caller'} at {self.connection.origin}"
            _log.warning("%s refuses %s: %s.", self._service.name, caller, exc)
            with contextlib.suppress(OSError):
                self._answer(messages.Refused(str(exc), getattr(exc, "busy", False)))
        except OSError:
            _log.info("%s has lost its coordinator, and waits for it.", self._service.name)
        except _ClosingError:
            pass
        finally:
            if self._session is not None:
                self._session.close()
            self._service.left(self)
            self.connection.close()
            self._wake_in.close()
            self._wake_out.close()

    def _serve(self) -> None:
        service = self._service
        begin, _ = self._next()
        if not isinstance(begin, messages.Begin | messages.End):
            raise RequestError(f"it sends a {messages.name_of(begin)} before it begins")
        if self._other is not None:
            raise RequestError(
                f"another coordinator uses this worker, {self._other.hello.name} at "
                f"{self._other.connection.origin}: a cluster has one. End one of the two",
                busy=True,
            )
        if isinstance(begin, messages.End):
            service.end()
            return
        if begin.versions != (ours := versions()):
            raise RequestError(f"it has {begin.versions}, and this worker {ours}: install the same")
        proved = self.hello.proves or self.connection.encrypted
        session = self._session = Session(
            service.worker,
            None if service.connect is None else functools.partial(service.connect, begin.origin),
            service.executables,
            trusted=may_send_code(self.connection.origin, proved=proved),
            wake=self._wake,
        )
        self._answer(messages.Ready(jax.default_backend()))
        while True:
            message, arrays = self._next()
            match message:
                case messages.Run():
                    answer, results = session.run(message, arrays, self._wait_in(message.closure))
                    self._answer(answer, results)
                case messages.Learn(program=name):
                    session.learn(name, _bytes(arrays))
                case messages.Own():
                    session.own(message, arrays[0])
                case messages.Iterate():
                    session.iterate(message, _bytes(arrays))
                case messages.Forget(iterators=numbers):
                    session.forget(numbers)
                case messages.Stop():
                    pass  # the closure had ended before
                case _:
                    raise RequestError(f"it sends a {messages.name_of(message)} once more")

    def _next(self) -> tuple[Any, Sequence[Array]]:
        """Wait for the next message."""
        while True:
            if (received := self._received()) is not None:
                return received
            self._wait()

    def _received(self) -> tuple[Any, Sequence[Array]] | None:
        """Return the next message, if it is here."""
        try:
            return self._incoming.receive()
        except BlockingIOError:
            return None

    def _wait(self) -> None:
        """Wait for something to receive, or to be woken."""
        for descriptor, _ in self._poll.poll():
            if descriptor == self._wake_in.fileno():
                with contextlib.suppress(BlockingIOError):
                    self._wake_in.recv(1 << 12)
        if self._closing:
            raise _ClosingError

    def _wait_in(self, closure: int) -> Callable[[Callable[[], bool]], bool]:
        """Return what waits within a closure, unless it is to stop."""

        def wait(ready: Callable[[], bool]) -> bool:
            while True:
                if (received := self._received()) is not None:
                    message = received[0]
                    if not isinstance(message, messages.Stop):
                        raise _interrupted(message)
                    if message.closure == closure:
                        return False
                    continue
                if ready():
                    return True
                self._wait()

        return wait

    def _answer(self, answer: messages.Answer, arrays: Sequence[Array] = ()) -> None:
        self.connection.send_all(encode(answer, arrays), time.monotonic() + _SEND_SECS)

    def _place(self, message: messages.Request, sizes: Sequence[tuple[str, int]]) -> list[Array]:
        kinds = self._session.places(message) if self._session is not None else ()
        check_sizes(message, kinds, sizes)
        return [allocate(size, dtype_named(name)) for name, size in sizes]


class _ClosingError(BaseException):
    """The service is being closed."""


def _bytes(arrays: Sequence[Array]) -> bytes:
    return b"".join(array.tobytes() for array in arrays)


def _interrupted(message: Any) -> ProtocolError:
    return ProtocolError(f"it sends a {messages.name_of(message)} while a closure runs")
