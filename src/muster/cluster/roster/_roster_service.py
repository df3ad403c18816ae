"""The service at a task's address: others call, say who they are, and are told how this task is."""

import functools
import logging
import selectors
import socket
import time
from collections.abc import Callable, Sequence

from muster.cluster.roster._roster_events import Called
from muster.cluster.roster._roster_messages import (
    MAX_HELLO,
    LineBuffer,
    ProtocolError,
    Status,
    decode_hello,
    encode_beat,
    encode_refusal,
    encode_status,
)

_log = logging.getLogger(__name__)

_CHUNK = 1 << 16
# How long a caller may take to say who it is, and to take its answer, in seconds.
_CALL_SECS = 10.0
# Callers beyond those that watch; the oldest that do not watch have to go.
_SPARE_CALLERS = 64


class _Caller:
    def __init__(self, sock: socket.socket, origin: str) -> None:
        self.sock = sock
        self.origin = origin
        self.since = time.monotonic()
        self.lines = LineBuffer(MAX_HELLO)
        self.greeted = False  # it has said who it is
        self.watches = False  # it is told of every change
        self.out = bytearray()
        self.stale = False  # there is newer to tell than what is in `out`


class Service:
    """The service at a task's address. All is done on the thread that runs the selector.

    Args:
        selector: Runs the functions that are registered with it.
        listeners: Where others call this task.
        watchers: How many are expected to watch this task.
        own: Returns how this task is.
        called: Is told of each caller that has said who it is.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        listeners: Sequence[socket.socket],
        watchers: int,
        own: Callable[[], Status],
        called: Callable[[Called], None],
    ) -> None:
        self._selector = selector
        self._listeners = listeners
        self._room = 2 * watchers + _SPARE_CALLERS
        self._own = own
        self._called = called
        self._callers: dict[int, _Caller] = {}
        self._calls = 0
        self.tidy()

    @property
    def sockets(self) -> list[socket.socket]:
        """All that are open."""
        return [*self._listeners, *(caller.sock for caller in self._callers.values())]

    @property
    def unsent(self) -> bool:
        """Whether somebody has yet to be told something."""
        return any(caller.out for caller in self._callers.values())

    def tidy(self) -> None:
        """Listen again, if there was no room for calls, and drop callers that say and take nothing."""
        for listener in self._listeners:
            if listener.fileno() not in self._selector.get_map():
                listener.setblocking(False)
                accept = functools.partial(self._accept, listener)
                self._selector.register(listener, selectors.EVENT_READ, accept)
        before = time.monotonic() - _CALL_SECS
        for key, caller in list(self._callers.items()):
            if not caller.watches and caller.since < before:
                self._drop(key)

    def answer(self, key: int, keep: bool) -> None:
        """Tell a caller how this task is; ``keep``: and go on telling it."""
        self._callers[key].watches = keep
        self._send(key, encode_status(self._own()))

    def publish(self, beat: bool) -> None:
        """Tell those that watch how this task is; ``beat``: only how far it is, and that it lives."""
        line = encode_beat(self._own().progress) if beat else encode_status(self._own())
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
            # Most likely too many files are open. The listener is ready all the same: look again later.
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
        if not data or caller.greeted:  # who has said who it is has no more to say
            self._drop(key)
            return
        try:
            lines = caller.lines.feed(data)
            hello = decode_hello(lines[0]) if lines else None
        except ProtocolError as exc:
            caller.greeted = True
            self._send(key, encode_refusal(f"This is {self._own()}, and {exc}."))
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
            caller.out += encode_status(self._own())
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
