"""A parameter server on a thread: it holds the connections, and asks the machine for answers."""

import collections
import contextlib
import functools
import logging
import math
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from muster._errors import MissingPeerError
from muster._text import printable
from muster.cluster.roster import RunningClock, write_events
from muster.net import Connection, Hello, ProtocolError, drop_first
from muster.ps import _messages as messages
from muster.ps._endpoint import Peer
from muster.ps._flat_layout import Array
from muster.ps._keeper import Keeper
from muster.ps._machine import Machine
from muster.ps._messages import Caller
from muster.ps._replies import Asked, Lost, RefusedError, Reply
from muster.ps._wire import encode

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

_CHUNK = 1 << 16
# How long a caller that was refused may go on sending until it reads why, in seconds.
_DRAIN_SECS = 10.0
# How often a server looks who stands still, and what is to be saved, in seconds.
_LOOK_SECS = 1.0
# How long a server waits after the end of the job for workers to hear of it, in seconds.
_LINGER_SECS = 30.0


class Service:
    """Serves the connections of other tasks until it is closed, one thread for all of them.

    Args:
        machine: What answers; nobody but the service may use it meanwhile.
        keeper: Writes snapshots; None for none.
        report: Called about once a second, on the service's thread.
        next_secs: How long a server waits for the next coordinator when one is gone, with its workers, in
            seconds.

    Attributes:
        busy_secs: How long it has worked so far, rather than waited for requests, in seconds.
    """

    def __init__(
        self,
        machine: Machine,
        keeper: Keeper | None = None,
        report: Callable[[], None] | None = None,
        next_secs: float = math.inf,
    ) -> None:
        self._name = machine.name
        self._machine = machine
        self._keeper = keeper
        self._report = report
        self._next_secs = next_secs
        self.busy_secs = 0.0
        self._peers: set[Peer] = set()
        self._joined: dict[Caller, Peer] = {}  # on which the first request has come
        self._replies: collections.deque[Reply] = collections.deque()
        self._delivering = False
        self._job = ""
        self._inbox: collections.deque[tuple[Connection, Hello]] = collections.deque()
        self._calls: collections.deque[tuple[Future[Any], Callable[[], None]]] = collections.deque()
        self._inbox_lock = threading.Lock()
        self._closing = self._leaving = False
        self._ended, self._alone = threading.Event(), threading.Event()
        self._failure: Exception | None = None
        self._clock = RunningClock()
        self._alone_since: float | None = None
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._selector.register(self._wake_in, selectors.EVENT_READ, self._woken)
        self._thread = threading.Thread(target=self._run, name="muster-ps", daemon=True)

    def start(self, job: str = "") -> None:
        """Start the thread.

        Args:
            job: The id of the job whose tasks are served; empty for any.
        """
        self._job = job
        self._thread.start()

    def serve(self, connection: Connection, hello: Hello) -> None:
        """Take over a connection: the handler of an `Acceptor`, on any thread."""
        with self._inbox_lock:
            if self._closing:
                connection.close()
            else:
                self._inbox.append((connection, hello))
                self._wake()

    def check_job(self, hello: Hello) -> None:
        """Raise RefusedError if a caller is of another job."""
        if self._job and hello.job != self._job:
            raise RefusedError(
                f"it is of job {printable(hello.job)}, and this server of job {self._job}. Give all tasks "
                "the same cluster in TF_CONFIG, or the same MUSTER_JOB_ID"
            )

    def between(self, look: Callable[[], _T]) -> _T:
        """Return what a function finds in the machine between two requests: for other threads.

        Raises:
            Exception: What the function raises.
            ConnectionAbortedError: The service has ended.
        """
        result: Future[_T] = Future()

        def call() -> None:
            try:
                result.set_result(look())
            except Exception as exc:
                result.set_exception(exc)

        with self._inbox_lock:
            if self._closing:
                raise ConnectionAbortedError(f"{self._name} has ended.")
            self._calls.append((result, call))
            self._wake()
        return result.result()

    def join(self) -> None:
        """Wait until the job has ended and the workers have heard of it, or until `leave` or `close`.

        Raises:
            MissingPeerError: All callers are gone, and no other one has come in time.
            Exception: What has ended the thread: a failure of the update, or of the system.
        """
        # Python handles signals when this thread wakes, and not every signal wakes it: one may come just
        # before the wait, or to another thread.
        while not self._ended.wait(_LOOK_SECS):
            pass
        self._alone.wait(_LINGER_SECS)
        if self._failure is not None:
            raise self._failure

    def leave(self) -> None:
        """End the thread once no worker is connected any more. Handlers of signals may call it, too."""
        self._leaving = True
        self._wake()

    def close(self) -> None:
        """End the thread, and close all connections."""
        with self._inbox_lock:
            self._closing = True
            self._wake()
        if self._thread.ident is None:  # it was never started
            self._release()
        else:
            self._thread.join()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # it is being woken, or has ended
            self._wake_out.send(b"!")

    def _woken(self, mask: int) -> None:
        self._wake_in.recv(_CHUNK)

    def _run(self) -> None:
        look_at = 0.0
        try:
            while not self._closing and not (self._leaving and not self._peers):
                ready = self._selector.select(_LOOK_SECS)
                began = time.monotonic()
                for key, mask in ready:
                    key.data(mask)
                while self._calls:
                    self._calls.popleft()[1]()
                while self._inbox:
                    self._take(*self._inbox.popleft())
                if (now := time.monotonic()) >= look_at:
                    look_at = now + _LOOK_SECS
                    self._look(now)
                if self._machine.ended:
                    if not self._ended.is_set() and self._keeper is not None:
                        self._keeper.remove()
                    self._ended.set()
                    if not self._peers:
                        self._alone.set()
                self.busy_secs += time.monotonic() - began
            if self._report is not None:
                self._report()
        except MissingPeerError as exc:
            self._failure = exc
        except Exception as exc:
            _log.exception("%s cannot go on.", self._name)
            write_events(self._machine.log)
            self._failure = exc
        finally:
            self._release()

    def _release(self) -> None:
        with self._inbox_lock:
            self._closing = True
        for connection in (
            *(each.connection for each in self._peers),
            *(each for each, _ in self._inbox),
        ):
            connection.close()
        for result, _ in self._calls:
            result.set_exception(ConnectionAbortedError(f"{self._name} has ended."))
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()
        self._ended.set()
        self._alone.set()

    def _look(self, now: float) -> None:
        """Do what time alone makes due."""
        self._deliver(self._machine.handle([], now))
        if self._report is not None:
            self._report()
        for peer in [each for each in self._peers if now - (each.refused_at or now) > _DRAIN_SECS]:
            self._drop(peer)
        self._wait_for_others()

    def _wait_for_others(self) -> None:
        """Raise MissingPeerError if nobody has come for long since a coordinator's program is gone."""
        now = self._clock()
        if self._peers or self._alone_since is None:
            self._alone_since = now
        secs = now - self._alone_since
        if self._machine.coordinated and secs >= self._next_secs:
            raise MissingPeerError(
                f"{self._name} has lost all tasks that it has served, and no other one has come for "
                f"{self._next_secs:.0f} s. Start the job again: it goes on from its last checkpoint."
            )

    def _take(self, connection: Connection, hello: Hello) -> None:
        peer = Peer(self._machine, self._joined, connection, hello)
        self._peers.add(peer)
        self._selector.register(connection, selectors.EVENT_READ, functools.partial(self._serve, peer))
        try:
            self.check_job(hello)
        except RefusedError as exc:
            self._refuse(peer, str(exc))

    def _serve(self, peer: Peer, mask: int) -> None:
        if mask & selectors.EVENT_WRITE and peer in self._peers:
            self._send(peer)
        if mask & selectors.EVENT_READ and peer in self._peers:
            while self._read(peer) and peer.incoming.has_more and peer in self._peers:
                pass

    def _read(self, peer: Peer) -> bool:
        """Read a request and handle it; return whether there was one."""
        try:
            if peer.refused_at is not None:
                while peer.connection.receive(_CHUNK):
                    pass
                raise ConnectionResetError("end of the connection")
            message, arrays = peer.incoming.receive()
        except BlockingIOError:
            return False
        except (ProtocolError, RefusedError) as exc:
            self._refuse(peer, str(exc))
            return False
        except OSError:
            self._drop(peer)
            return False
        self._handle(peer, message, arrays)
        return True

    def _handle(self, peer: Peer, message: Any, arrays: Sequence[Array]) -> None:
        if isinstance(message, messages.Join):
            peer.caller = Caller(peer.caller.task, peer.caller.run, message.client)
            # The caller's other connection is broken, and it was the first to see that.
            before, self._joined[peer.caller] = self._joined.get(peer.caller), peer
            if before is not None and before is not peer:
                self._drop(before)
        if peer.outgoing:
            self._refuse(peer, f"it sends a {messages.name_of(message)} before it has read the last answer")
            return
        self._deliver(self._machine.handle([Asked(peer.caller, message, arrays)], time.monotonic()))

    def _deliver(self, replies: Sequence[Reply]) -> None:
        if self._keeper is not None and not self._machine.ended:
            self._keeper.look(self._machine)
        self._replies += replies
        if self._delivering:
            return  # a reply could not be sent, and its caller's loss made this one possible
        self._delivering = True
        while self._replies:
            reply = self._replies.popleft()
            if (peer := self._joined.get(reply.caller)) is not None:
                peer.outgoing = encode(reply.message, reply.arrays)
                del reply  # its arrays are the values', which are updated in place when they are sent
                self._send(peer)
        self._delivering = False

    def _send(self, peer: Peer) -> None:
        try:
            while peer.outgoing:
                drop_first(peer.outgoing, peer.connection.send(peer.outgoing))
        except BlockingIOError:
            self._watch(peer, selectors.EVENT_READ | selectors.EVENT_WRITE)
        except OSError:
            self._drop(peer)
        else:
            self._watch(peer, selectors.EVENT_READ)

    def _watch(self, peer: Peer, events: int) -> None:
        key = self._selector.get_key(peer.connection)
        if key.events != events:
            self._selector.modify(peer.connection, events, key.data)

    def _refuse(self, peer: Peer, why: str) -> None:
        """Say why, and read on without listening: closing at once could take the answer from the caller."""
        _log.warning("%s refuses %s at %s: %s.", self._name, peer.caller.task, peer.connection.origin, why)
        self._leave(peer)
        peer.refused_at = time.monotonic()
        if not peer.outgoing:  # else the reason would be taken for a part of an answer
            peer.outgoing = encode(messages.Refused(text=why), ())
            self._send(peer)

    def _drop(self, peer: Peer) -> None:
        self._peers.discard(peer)
        self._selector.unregister(peer.connection)
        peer.connection.close()
        self._leave(peer)

    def _leave(self, peer: Peer) -> None:
        if self._joined.get(peer.caller) is peer:
            del self._joined[peer.caller]
            self._deliver(self._machine.handle([Lost(peer.caller)], time.monotonic()))
