"""The server at a task's address: it sends this task's status to callers and subscribers."""

import dataclasses
import functools
import logging
import selectors
import socket
import time
from collections.abc import Callable, Sequence

from muster.cluster.roster import _roster_messages as messages
from muster.cluster.roster._roster_events import Called
from muster.cluster.roster._stacks import thread_stacks

_log = logging.getLogger(__name__)

_CHUNK = 1 << 16
# How long a caller may take to identify itself and to read the answer, in seconds.
_CALL_SECS = 10.0
# Connections beyond those of subscribers; the oldest ones are dropped for newer ones.
_SPARE_CALLERS = 64


class _Caller:
    def __init__(self, sock: socket.socket, origin: str) -> None:
        self.sock = sock
        self.origin = origin
        self.since = time.monotonic()
        self.lines = messages.LineBuffer(messages.MAX_HELLO)
        self.greeted = False  # it has identified itself
        self.watches = False  # it is a subscriber
        self.out = bytearray()
        self.stale = False  # the status has changed since `out` was filled


class Service:
    """Serves the status of this task: once to a caller, at each change to a subscriber.

    It starts no thread: the functions that it registers with the selector must be called when their sockets
    are ready.

    Args:
        selector: Watches the sockets.
        listeners: The listening sockets of this task.
        subscribers: The expected number of subscribers.
        status: Returns the status of this task.
        called: Called for each caller that has identified itself.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        listeners: Sequence[socket.socket],
        subscribers: int,
        status: Callable[[], messages.Status],
        called: Callable[[Called], None],
    ) -> None:
        self._selector = selector
        self._listeners = listeners
        self._room = 2 * subscribers + _SPARE_CALLERS
        self._status = status
        self._called = called
        self._callers: dict[int, _Caller] = {}
        self._calls = 0
        self.tidy()

    @property
    def sockets(self) -> list[socket.socket]:
        """All open sockets."""
        return [*self._listeners, *(caller.sock for caller in self._callers.values())]

    @property
    def unsent(self) -> bool:
        """Data waits to be sent."""
        return any(caller.out for caller in self._callers.values())

    def tidy(self) -> None:
        """Listen again if accepting had failed, and drop callers that are idle."""
        for listener in self._listeners:
            if listener.fileno() not in self._selector.get_map():
                listener.setblocking(False)
                accept = functools.partial(self._accept, listener)
                self._selector.register(listener, selectors.EVENT_READ, accept)
        before = time.monotonic() - _CALL_SECS
        for key, caller in list(self._callers.items()):
            if not caller.watches and caller.since < before:
                self._drop(key)

    def answer(self, key: int, keep: bool, stacks: bool) -> None:
        """Send this task's status to a caller; ``keep`` makes it a subscriber, ``stacks`` adds its stacks."""
        self._callers[key].watches = keep
        status = self._status()
        if stacks:
            status = dataclasses.replace(status, stacks=thread_stacks())
        self._send(key, messages.encode_status(status))

    def publish(self, beat: bool) -> None:
        """Send this task's status to all subscribers, or with ``beat`` only its progress."""
        line = (
            messages.encode_beat(self._status().progress) if beat else messages.encode_status(self._status())
        )
        for key, caller in list(self._callers.items()):
            if not caller.watches:
                continue
            if not caller.out:
                self._send(key, line)
            elif not beat:
                caller.stale = True

    def _accept(self, listener: socket.socket, mask: int) -> None:
        try:
            sock, origin = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as exc:
            # Most likely too many files are open. The listener stays ready, so accept again later.
            _log.warning("Cannot take a call: %s.", exc)
            self._selector.unregister(listener)
            return
        excess = max(0, len(self._callers) + 1 - self._room)
        for key in [key for key, caller in self._callers.items() if not caller.watches][:excess]:
            self._drop(key)
        if len(self._callers) >= self._room:
            sock.close()
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._calls += 1
        self._callers[self._calls] = _Caller(sock, str(origin[0]))
        self._selector.register(sock, selectors.EVENT_READ, functools.partial(self._serve, self._calls))

    def _serve(self, key: int, mask: int) -> None:
        if key in self._callers and mask & selectors.EVENT_WRITE:
            self._flush(key)
        if key in self._callers and mask & selectors.EVENT_READ:
            self._read(key, self._callers[key])

    def _read(self, key: int, caller: _Caller) -> None:
        try:
            data = caller.sock.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or caller.greeted:  # after the greeting, a caller sends nothing more
            self._drop(key)
            return
        try:
            lines = caller.lines.feed(data)
            hello = messages.decode_hello(lines[0]) if lines else None
        except messages.ProtocolError as exc:
            caller.greeted = True
            self._send(key, messages.encode_refusal(f"This is {self._status()}, and {exc}."))
            return
        if hello is not None:
            caller.greeted = True
            self._called(Called(key, caller.origin, hello))

    def _send(self, key: int, line: bytes) -> None:
        self._callers[key].out += line
        self._flush(key)

    def _flush(self, key: int) -> None:
        caller = self._callers[key]
        try:
            del caller.out[: caller.sock.send(caller.out)]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(key)
            return
        if not caller.out and caller.stale:
            caller.stale = False
            caller.out += messages.encode_status(self._status())
        if not caller.out and not caller.watches:
            self._drop(key)
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if caller.out else 0)
        registered = self._selector.get_key(caller.sock)
        if registered.events != wanted:
            self._selector.modify(caller.sock, wanted, registered.data)

    def _drop(self, key: int) -> None:
        caller = self._callers.pop(key)
        self._selector.unregister(caller.sock)
        caller.sock.close()
