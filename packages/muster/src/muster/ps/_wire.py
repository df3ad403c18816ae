"""Frames between workers and servers: a header, and the buffers that follow it."""

import struct
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from muster.net import Connection, FrameBuffer, ProtocolError, decode_message, drop_first, encode_frame
from muster.ps._flat_layout import Array, memory, sizes_of

# The longest header, in bytes.
MAX_HEADER = 1 << 16
_LENGTH = struct.Struct("!I")

Sizes = Sequence[tuple[str, int]]
# Returns where to receive the buffers that a header announces.
Place = Callable[[Any, Sizes], Sequence[Array]]


def encode(message: Any, arrays: Sequence[Array]) -> list[memoryview]:
    """Return what to send for a message and the flat arrays that follow it: their own memory, no copies."""
    header = encode_frame({"message": message, "buffers": sizes_of(arrays)})
    return [memoryview(header), *[memory(array) for array in arrays if array.size]]


def receive_message(connection: Connection, kind: Any, deadline: float) -> Any:
    """Return the next message of a connection on which nothing follows a frame.

    Args:
        connection: Where from.
        kind: The type of the messages.
        deadline: Until when to wait, by the monotonic clock.

    Raises:
        ProtocolError: What comes is something else.
        TimeoutError: The frame is not whole by then; what came of it is lost.
        OSError: The connection is broken, or ends.
    """
    frames = FrameBuffer(MAX_HEADER)
    while data := connection.wait_for_data(frames.wanted, deadline):
        for packed in frames.feed(data):
            return decode_message(packed, kind)
    raise ConnectionResetError("end of the connection")


class Incoming:
    """Receives messages, and the buffers that follow them into their places.

    What is small comes in one piece, and is copied to its place; the rest of what is large comes straight
    there.

    Args:
        connection: Where from.
        kind: The type of the headers: ``message`` and ``buffers``, of which each has a dtype and a size.
        place: Called for each header; what it raises, `receive` does.
        shows: Returns whether a text of a message may be shown as it is, so that all of them are made safe
            for that.
    """

    def __init__(
        self,
        connection: Connection,
        kind: type[Any],
        place: Place,
        shows: Callable[[Any], bool] = lambda message: True,
    ) -> None:
        self._connection = connection
        self._kind = kind
        self._decoder = msgspec.msgpack.Decoder(kind)
        self._place = place
        self._shows = shows
        self._piece = memoryview(bytearray(_LENGTH.size + MAX_HEADER))
        self._filled = 0  # how much of it has come and is not taken yet, in bytes
        self._message: Any = None
        self._arrays: Sequence[Array] = ()
        self._left: list[memoryview] = []

    @property
    def has_more(self) -> bool:
        """True if something has come beyond the last message."""
        return self._filled > 0

    def receive(self) -> tuple[Any, Sequence[Array]]:
        """Return the next message and its arrays.

        Raises:
            BlockingIOError: They are not here yet. Call again when there is more.
            ProtocolError: What comes is something else.
            OSError: The connection is broken, or ends.
        """
        while self._message is None and not self._begin():
            count = self._connection.receive_into([self._piece[self._filled :]])
            if not count:
                raise ConnectionResetError("end of the connection")
            self._filled += count
        while self._left:
            count = self._connection.receive_into(self._left)
            if not count:
                raise ConnectionResetError("end of the connection")
            drop_first(self._left, count)
        received = self._message, self._arrays
        self._message, self._arrays = None, ()
        return received

    def _begin(self) -> bool:
        """Take the next header, and what has come of its buffers; return whether it is here."""
        piece, filled = self._piece, self._filled
        if filled < _LENGTH.size:
            return False
        (length,) = _LENGTH.unpack_from(piece)
        if length > MAX_HEADER:
            raise ProtocolError(f"it sends a message of {length} bytes, and {MAX_HEADER} are allowed")
        start = _LENGTH.size + length
        if filled < start:
            return False
        header = self._decoded(bytes(piece[_LENGTH.size : start]))
        self._arrays = self._place(header.message, header.buffers)
        left = self._left = [memory(array) for array in self._arrays if array.size]
        for done, place in enumerate(left):
            if (stop := start + len(place)) > filled:
                here = filled - start
                place[:here] = piece[start:filled]
                left[done] = place[here:]
                del left[:done]
                start = filled
                break
            place[:] = piece[start:stop]
            start = stop
        else:
            left.clear()
        if start < filled:  # of the next message
            piece[: filled - start] = bytes(piece[start:filled])
        self._filled = filled - start
        self._message = header.message
        return True

    def _decoded(self, packed: bytes) -> Any:
        try:
            header = self._decoder.decode(packed)
        except (msgspec.DecodeError, msgspec.ValidationError, RecursionError, UnicodeError):
            return decode_message(packed, self._kind)  # which says what is wrong
        return decode_message(packed, self._kind) if self._shows(header.message) else header
