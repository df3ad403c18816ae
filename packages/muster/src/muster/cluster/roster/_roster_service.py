"""The server of the roster: it sends this task's status to callers and subscribers."""

import dataclasses
import functools
import selectors
import time
from collections.abc import Callable

from muster.cluster.roster import _roster_messages as messages
from muster.cluster.roster._roster_events import Called
from muster.lifecycle import thread_stacks
from muster.net import Connection, FrameBuffer, Hello, ProtocolError

_CHUNK = 1 << 16
# How long a caller may take to identify itself and to read the answer, in seconds.
_CALL_SECS = 10.0
# Connections beyond those of subscribers; the oldest ones are dropped for newer ones.
_SPARE_CALLERS = 64


class _Caller:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.since = time.monotonic()
        self.frames = FrameBuffer(messages.MAX_HELLO)
        self.greeted = False  # it has identified itself
        self.watches = False  # it is a subscriber
        self.out = bytearray()
        self.stale = False  # the status has changed since `out` was filled


class RosterService:
    """Serves the status of this task: once to a caller, at each change to a subscriber.

    It starts no thread: the functions that it registers with the selector must be called when their sockets
    are ready.

    Args:
        selector: Watches the connections.
        subscribers: The expected number of subscribers.
        status: Returns the status of this task.
        called: Called for each caller that has identified itself.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        subscribers: int,
        status: Callable[[], messages.Status],
        called: Callable[[Called], None],
    ) -> None:
        self._selector = selector
        self._room = 2 * subscribers + _SPARE_CALLERS
        self._status = status
        self._called = called
        self._callers: dict[int, _Caller] = {}
        self._calls = 0

    @property
    def connections(self) -> list[Connection]:
        """All open connections."""
        return [caller.connection for caller in self._callers.values()]

    @property
    def unsent(self) -> bool:
        """Data waits to be sent."""
        return any(caller.out for caller in self._callers.values())

    def serve(self, connection: Connection, hello: Hello) -> None:
        """Take a connection of a caller that has proved itself."""
        excess = max(0, len(self._callers) + 1 - self._room)
        for key in [key for key, caller in self._callers.items() if not caller.watches][:excess]:
            self._drop(key)
        if len(self._callers) >= self._room:
            connection.close()
            return
        self._calls += 1
        self._callers[self._calls] = _Caller(connection)
        self._selector.register(connection, selectors.EVENT_READ, functools.partial(self._serve, self._calls))

    def tidy(self) -> None:
        """Drop callers that are idle."""
        before = time.monotonic() - _CALL_SECS
        for key, caller in list(self._callers.items()):
            if not caller.watches and caller.since < before:
                self._drop(key)

    def answer(self, key: int, keep: bool, stacks: bool) -> None:
        """Send this task's status to a caller; ``keep`` makes it a subscriber, ``stacks`` adds its stacks."""
        self._callers[key].watches = keep
        status = self._status()
        if stacks:
            status = dataclasses.replace(status, stacks=thread_stacks()[: messages.MAX_STACKS])
        self._send(key, messages.encode_status(status))

    def publish(self, beat: bool) -> None:
        """Send this task's status to all subscribers, or with ``beat`` only its progress."""
        frame = (
            messages.encode_beat(self._status().progress) if beat else messages.encode_status(self._status())
        )
        for key, caller in list(self._callers.items()):
            if not caller.watches:
                continue
            if not caller.out:
                self._send(key, frame)
            elif not beat:
                caller.stale = True

    def _serve(self, key: int, mask: int) -> None:
        if key in self._callers and mask & selectors.EVENT_WRITE:
            self._flush(key)
        if key in self._callers and mask & selectors.EVENT_READ:
            self._read(key, self._callers[key])

    def _read(self, key: int, caller: _Caller) -> None:
        try:
            data = caller.connection.receive(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or caller.greeted:  # after its message, a caller sends nothing more
            self._drop(key)
            return
        try:
            received = caller.frames.feed(data)
            hello = messages.decode_hello(received[0]) if received else None
        except ProtocolError:
            self._drop(key)
            return
        if hello is not None:
            caller.greeted = True
            self._called(Called(key, caller.connection.origin, hello))

    def _send(self, key: int, frame: bytes) -> None:
        self._callers[key].out += frame
        self._flush(key)

    def _flush(self, key: int) -> None:
        caller = self._callers[key]
        try:
            sent = caller.connection.send([caller.out]) if caller.out else 0
            del caller.out[:sent]
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
        registered = self._selector.get_key(caller.connection)
        if registered.events != wanted:
            self._selector.modify(caller.connection, wanted, registered.data)

    def _drop(self, key: int) -> None:
        caller = self._callers.pop(key)
        self._selector.unregister(caller.connection)
        caller.connection.close()
