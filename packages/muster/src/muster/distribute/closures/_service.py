"""Serves a coordinator: a thread for its connection, on which closures run one after the other."""

import collections
import contextlib
import dataclasses
import functools
import logging
import math
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax

from muster._arrays import dtype_named
from muster._errors import MissingPeerError
from muster.cluster.roster import RunningClock, WorkTotals
from muster.distribute.closures import _messages as messages
from muster.distribute.closures._session import (
    ClosureRequestError,
    ClosureSession,
    ClosureTotals,
    check_sizes,
    may_send_code,
)
from muster.distribute.engine._traced import Executables
from muster.distribute.workers import SlidingRate
from muster.net import Connection, Hello, ProtocolError
from muster.ps import Array, Incoming, Servers, allocate, encode
from muster.ps.contents.updates import versions

_log = logging.getLogger(__name__)

# How long a coordinator may take to read an answer, in seconds.
_SEND_SECS = 600.0
# How long to wait for the end of a closure when the service is closed, in seconds.
_CLOSE_SECS = 10.0
# How long to wait for the next coordinator when one is gone, in seconds; and how often to look.
_NEXT_SECS = 600.0
_LOOK_SECS = 1.0
# An answer waits for those of closures that take less than this, in seconds; and for how long, at most.
_QUICK_SECS, _HOLD_SECS = 0.0005, 0.002


class ClosureService:
    """Runs the closures of a coordinator, for one at a time.

    Args:
        name: The name of this task.
        worker: Its index.
        connect: Makes the connections to parameter servers, for a coordinator's random id; None where there
            are none.

    Attributes:
        totals: What its closures have taken.
    """

    def __init__(self, name: str, worker: int, connect: Callable[[str], Servers] | None = None) -> None:
        self.name = name
        self.worker = worker
        self.executables: Executables = {}
        self.connect = connect
        self._lock = threading.Lock()
        self._links: set[_Link] = set()
        self._closed = self._leaving = False
        self._clock = RunningClock()
        self._alone_since: float | None = None  # when the last coordinator was lost
        self.totals = ClosureTotals()
        self._first: tuple[WorkTotals, float] | None = None  # what samples begin from, and when
        self._rate = SlidingRate()
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

    def sample(self) -> dict[str, Any]:
        """Return what this worker has done, as fields of ``muster.cluster.Progress``: once a second."""
        totals, now = self.totals.work(), time.monotonic()
        if not totals.steps:
            return {}
        before, began = self._first = self._first or (totals, now)  # the first ones compile
        since = totals.since(before)
        return {
            "closures": totals.steps,
            "closures_per_sec": self._rate(totals.steps),
            "totals": dataclasses.replace(since, idle=max(0.0, now - began - since.secs)),
        }

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
        self._incoming = Incoming(connection, messages.RequestHeader, self._place)
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        self._poll.register(self._wake_in, select.POLLIN)
        self._session: ClosureSession | None = None
        self._pending: collections.deque[tuple[messages.RequestedClosure, Sequence[Array]]] = (
            collections.deque()
        )
        self._running: int | None = None  # the closure, unless it is to stop
        self._answers: list[messages.Answer] = []  # not sent yet, with their results
        self._results: list[Array] = []
        self._held_since = 0.0
        self._broken: Exception | None = None  # what a closure could not wait for
        self._secs: dict[str, float] = {}  # how long each program took last
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
        except (ProtocolError, ClosureRequestError) as exc:
            caller = f"{self.hello.name or 'a caller'} at {self.connection.origin}"
            _log.warning("%s refuses %s: %s.", self._service.name, caller, exc)
            with contextlib.suppress(OSError):
                self._send(messages.RequestRefused(str(exc), getattr(exc, "busy", False)))
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
        if not isinstance(begin, messages.Begin | messages.JobEnd):
            raise ClosureRequestError(f"it sends a {messages.name_of(begin)} before it begins")
        if self._other is not None:
            raise ClosureRequestError(
                f"another coordinator uses this worker, {self._other.hello.name} at "
                f"{self._other.connection.origin}: a cluster has one. End one of the two",
                busy=True,
            )
        if isinstance(begin, messages.JobEnd):
            service.end()
            return
        if begin.versions != (ours := versions()):
            raise ClosureRequestError(f"it has {begin.versions}, and this worker {ours}: install the same")
        proved = self.hello.proves or self.connection.encrypted
        session = self._session = ClosureSession(
            service.worker,
            None if service.connect is None else functools.partial(service.connect, begin.origin),
            service.executables,
            trusted=may_send_code(self.connection.origin, proved=proved),
            wake=self._wake,
            totals=service.totals,
        )
        self._send(messages.Ready(jax.default_backend()))
        while True:
            self._take_in()
            if self._pending:
                self._run_next(session)
            else:
                self._send_answers()
                self._wait()

    def _run_next(self, session: ClosureSession) -> None:
        """Run the closure that has waited longest; send its answer, unless others follow soon."""
        asked, arrays = self._pending.popleft()
        self._running = asked.closure
        answer, results = session.run(asked, arrays, self._wait_in_closure)
        if self._broken is not None:
            raise self._broken
        if isinstance(answer, messages.Ran):
            self._secs[asked.program] = answer.secs
        self._hold(answer, results)
        following = self._pending[0][0].program if self._pending else ""
        if (
            self._secs.get(following, math.inf) > _QUICK_SECS
            or isinstance(answer, messages.Failed)  # long texts: a frame has room for one
            or time.monotonic() - self._held_since > _HOLD_SECS
        ):
            self._send_answers()

    def _wait_in_closure(self, ready: Callable[[], bool]) -> bool:
        """Wait within a closure; return False if it is to stop."""
        try:
            while True:
                self._take_in()
                if self._running is None:
                    return False
                if ready():
                    return True
                self._send_answers()
                self._wait()
        except (OSError, ProtocolError, ClosureRequestError) as exc:
            self._broken = exc  # it is the connection's error, and not one of the closure
            return False

    def _take_in(self) -> None:
        """Take all that has come; do at once what is no closure."""
        while (received := self._received()) is not None:
            message, arrays = received
            session = self._session
            if session is None:
                raise ClosureRequestError(f"it sends a {messages.name_of(message)} before it begins")
            match message:
                case messages.RunClosures(closures=closures):
                    left = iter(arrays)
                    for asked in closures:
                        self._pending.append((asked, [next(left) for _ in session.arguments_of(asked)]))
                case messages.Learn(program=name):
                    session.learn(name, _bytes(arrays))
                case messages.Own():
                    session.own(message, arrays[0])
                case messages.Iterate():
                    session.iterate(message, _bytes(arrays))
                case messages.Forget(iterators=numbers):
                    session.forget(numbers)
                case messages.Stop(closures=numbers):
                    self._stop(frozenset(numbers))
                case _:
                    raise ClosureRequestError(f"it sends a {messages.name_of(message)} once more")

    def _stop(self, closures: frozenset[int]) -> None:
        """Stop at closures, of which one may run."""
        if self._running in closures:
            self._running = None
        for asked, _ in self._pending:
            if asked.closure in closures:
                self._hold(messages.ClosureStopped(asked.closure), ())
        self._pending = collections.deque(each for each in self._pending if each[0].closure not in closures)

    def _hold(self, answer: messages.Answer, results: Sequence[Array]) -> None:
        if not self._answers:
            self._held_since = time.monotonic()
        self._answers.append(answer)
        self._results += results

    def _send_answers(self) -> None:
        if self._answers:
            answers, results, self._answers, self._results = self._answers, self._results, [], []
            self._send(messages.Answers(tuple(answers)), results)

    def _next(self) -> tuple[Any, Sequence[Array]]:
        """Wait for the next message."""
        while (received := self._received()) is None:
            self._wait()
        return received

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

    def _send(self, reply: messages.Reply, arrays: Sequence[Array] = ()) -> None:
        self.connection.send_all(encode(reply, arrays), time.monotonic() + _SEND_SECS)

    def _place(self, message: messages.Request, sizes: Sequence[tuple[str, int]]) -> list[Array]:
        kinds = self._session.places(message) if self._session is not None else ()
        check_sizes(message, kinds, sizes)
        return [allocate(size, dtype_named(name)) for name, size in sizes]


class _ClosingError(BaseException):
    """The service is being closed."""


def _bytes(arrays: Sequence[Array]) -> bytes:
    return b"".join(array.tobytes() for array in arrays)
