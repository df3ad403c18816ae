"""A connection to the agent on a host, as its launcher has it."""

import os
from collections.abc import Callable

import msgspec

from muster.cluster.roster import RunningClock
from muster.engines import _agent_messages as messages
from muster.net import FrameBuffer, ProtocolError, encode_frame

_CHUNK = 1 << 16
# The longest text before a greeting, in bytes: what a login prints.
_LONGEST_PRELUDE = 1 << 20

_decoder = msgspec.msgpack.Decoder(messages.Reply)


class AgentConnection:
    """A connection to the agent on a host.

    Args:
        host: What the user calls the host.
        address: What other hosts call it.
        replies: The descriptor to read from, which is closed by `close`.
        requests: The descriptor to write to, which may be the same.
        why: Returns why the connection has ended, for the user.

    Attributes:
        greeting: What the agent has said of itself; None until then.
        answer: The answer to the last request that has one; None until it has come.
        lost: Why there is no connection any more; empty while there is.
    """

    def __init__(self, host: str, address: str, replies: int, requests: int, why: Callable[[], str]) -> None:
        self.host, self.address = host, address
        self.greeting: messages.AgentHello | None = None
        self.answer: messages.TasksPlaced | messages.PlaceRefused | messages.AttemptEnded | None = None
        self.lost = ""
        self._replies, self._requests, self._why = replies, requests, why
        for descriptor in {replies, requests}:
            os.set_blocking(descriptor, False)
        self._prelude = b""
        self._frames = FrameBuffer(messages.LIMIT)
        self._waiting = bytearray()
        self._clock = RunningClock()
        self._heard_at = self._pinged_at = self._clock()

    def fileno(self) -> int:
        """Return the descriptor that is readable when there is news."""
        return self._replies

    def send(self, request: messages.Request) -> None:
        """Send a request, now or when there is room for it."""
        self._waiting += encode_frame(request)
        self._flush()

    def receive(self) -> list[messages.Reply]:
        """Return what the agent has told that is no answer, without waiting."""
        if self.lost:
            return []
        self._flush()
        try:
            data = os.read(self._replies, _CHUNK)
            ended = not data
        except OSError as exc:
            data, ended = b"", not isinstance(exc, BlockingIOError)
        if ended:
            self.lose(self._why())
            return []
        now = self._clock()
        if data:
            self._heard_at = now
        elif now - self._heard_at > messages.SILENCE_SECS:
            self.lose(f"{self.host} has been silent for {messages.SILENCE_SECS:.0f} s")
        if now - self._pinged_at >= messages.PING_SECS:
            self._pinged_at = now
            self.send(messages.Ping())
        try:
            return self._understood(data)
        except (ProtocolError, msgspec.MsgspecError) as exc:
            self.lose(f"what answers on {self.host} is no agent of this version of muster: {exc}")
            return []

    def lose(self, why: str) -> None:
        """Take the connection for broken, unless it is already."""
        self.lost = self.lost or why

    def close(self) -> None:
        """Close the connection, at which the agent ends its tasks. Must be called once."""
        self.lose("the job has ended")
        for descriptor in {self._replies, self._requests}:
            os.close(descriptor)

    def _flush(self) -> None:
        try:
            while self._waiting and not self.lost:
                del self._waiting[: os.write(self._requests, self._waiting[:_CHUNK])]
        except OSError:
            return  # there is no room now; or the end is read next, which says more

    def _understood(self, data: bytes) -> list[messages.Reply]:
        if self.greeting is None:
            self._prelude += data
            _, mark, rest = self._prelude.partition(messages.GREETING + b"{")
            line, end, data = rest.partition(b"\n")
            if not end:
                if not mark and len(self._prelude) > _LONGEST_PRELUDE:
                    raise ProtocolError(f"it begins with {self._prelude[:60]!r}")
                return []
            self.greeting = msgspec.json.decode(b"{" + line, type=messages.AgentHello)
        told: list[messages.Reply] = []
        for frame in self._frames.feed(data):
            message = _decoder.decode(frame)
            if isinstance(message, messages.TasksPlaced | messages.PlaceRefused | messages.AttemptEnded):
                self.answer = message
            else:
                told.append(message)
        return told
