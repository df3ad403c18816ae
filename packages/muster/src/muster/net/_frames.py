"""Frames: a length and a message, packed and checked by msgspec."""

import struct
from typing import Any, TypeVar

import msgspec

from muster._text import printable_json, printable_line

_LENGTH = struct.Struct("!I")
# How much of what cannot be understood is shown, in bytes.
_SHOWN = 60

_T = TypeVar("_T")


class ProtocolError(ValueError):
    """Bytes are not what this protocol says. The text describes them."""


def encode_frame(message: Any) -> bytes:
    """Pack a message, behind its length of four bytes in network order."""
    try:
        packed = msgspec.msgpack.encode(message)
    except UnicodeEncodeError:  # an error that names a file whose name is no UTF-8, for example
        packed = msgspec.msgpack.encode(printable_json(msgspec.to_builtins(message, builtin_types=(bytes,))))
    return _LENGTH.pack(len(packed)) + packed


def decode_message(packed: bytes, kind: type[_T]) -> _T:
    """Unpack a message of a type; its texts are made safe to show.

    Raises:
        ProtocolError: It is none of that type.
    """
    try:
        return msgspec.convert(printable_json(msgspec.msgpack.decode(packed)), kind)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError, UnicodeError) as exc:
        raise ProtocolError(f"it sends {packed[:_SHOWN]!r}: {printable_line(str(exc))}") from exc


class FrameBuffer:
    """Splits a stream of bytes into packed messages.

    Args:
        limit: The longest message that is allowed, in bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add received bytes, and return the messages that are now complete.

        Raises:
            ProtocolError: A message is too long.
        """
        self._rest += data
        messages = []
        while len(self._rest) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._rest)
            if length > self._limit:
                raise ProtocolError(f"it sends a message of {length} bytes, and {self._limit} are allowed")
            end = _LENGTH.size + length
            if len(self._rest) < end:
                break
            messages.append(bytes(self._rest[_LENGTH.size : end]))
            del self._rest[:end]
        return messages

    @property
    def wanted(self) -> int:
        """The number of bytes to receive next, none of them of the following message."""
        if len(self._rest) < _LENGTH.size:
            return _LENGTH.size - len(self._rest)
        length: int = _LENGTH.unpack_from(self._rest)[0]
        return _LENGTH.size + length - len(self._rest)

    @property
    def empty(self) -> bool:
        """True if no part of a message is buffered."""
        return not self._rest
