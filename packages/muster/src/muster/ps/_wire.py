"""Frames between workers and servers: a header, and the buffers that follow it."""

from collections.abc import Callable, Sequence
from typing import Any

from muster.net import Connection, FrameBuffer, decode_message, drop_first, encode_frame
from muster.ps._flat_layout import Array, memory, sizes_of

# The longest header, in bytes.
MAX_HEADER = 1 << 16

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
    """Receives messages, and the buffers that follow them straight into their places.

    Args:
        connection: Where from.
        kind: The type of the headers: ``message`` and ``buffers``, of which each has a dtype and a size.
        place: Called for each header; what it raises, `receive` does.
    """

    def __init__(self, connection: Connection, kind: type[Any], place: Place) -> None:
        self._connection = connection
        self._kind = kind
        self._place = place
        self._frames = FrameBuffer(MAX_HEADER)
        self._message: Any = None
        self._arrays: Sequence[Array] = ()
        self._left: list[memoryview] = []

    def receive(self) -> tuple[Any, Sequence[Array]]:
        """Return the next message and its arrays.

        Raises:
            BlockingIOError: They are not here yet. Call again when there is more.
            ProtocolError: What comes is something else.
            OSError: The connection is broken, or ends.
        """
        while self._message is None:
            data = self._connection.receive(self._frames.wanted)
            if not data:
                raise ConnectionResetError("end of the connection")
            for packed in self._frames.feed(data):
                header = decode_message(packed, self._kind)
                self._arrays = self._place(header.message, header.buffers)
                self._left = [memory(array) for array in self._arrays if array.size]
                self._message = header.message
        while self._left:
            count = self._connection.receive_into(self._left)
            if not count:
                raise ConnectionResetError("end of the connection")
            drop_first(self._left, count)
        received = self._message, self._arrays
        self._message, self._arrays = None, ()
        return received
