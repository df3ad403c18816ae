"""The bytes of serialized Examples, read at many places at once, as Protocol Buffers encode them.

Source: protobuf.dev/programming-guides/encoding.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

FIRST, SECOND = 0x0A, 0x12  # tags of the fields 1 and 2 that have a length
KINDS = {"bytes": 0x0A, "float": 0x12, "int64": 0x1A}
ROOM = 256  # after the last example: what is read ahead of a check is no longer
_LENGTH_BYTES, _NUMBER_BYTES = 4, 10
_SHORT = 40  # bytes: longer texts are cut out one after the other faster
_FIRST_BYTES = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)  # masks of so many bytes


class OtherwiseError(Exception):
    """The examples are not written as most are."""


class ExampleBytes:
    """The bytes of examples.

    Args:
        rows: Serialized Examples.

    Attributes:
        count: How many there are.
        bytes: Those of all examples, and some more.
        words: The eight bytes from each place on, as a number: to read it takes as long as four bytes.
        starts: Where the examples begin.
        ends: Where they end.
    """

    def __init__(self, rows: Sequence[bytes]) -> None:
        self._joined = b"".join([*rows, bytes(ROOM)])
        self.count = len(rows)
        self.bytes: Array = np.frombuffer(self._joined, np.uint8)
        self.words: Array = np.ndarray(len(self._joined) - 7, "<u8", self._joined, strides=(1,))
        self.ends: Array = np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)))
        self.starts: Array = np.concatenate([np.zeros(1, np.int64), self.ends[:-1]])

    def inside(self, begins: Array, ends: Array, tag: int | None = None) -> Array:
        """Return where the content of fields begins that go to an end; with a tag, all must have it.

        Raises:
            OtherwiseError: A field ends elsewhere, or has another tag.
        """
        lengths, inside = self.lengths(begins, tag)
        require(inside + lengths == ends)
        return inside

    def lengths(self, begins: Array, tag: int | None) -> tuple[Array, Array]:
        """Return how long fields are, and where their content begins.

        Raises:
            OtherwiseError: A field has another tag than the given one.
        """
        if tag is not None:
            require(self.bytes[begins] == tag)
        values, after = self._numbers(begins + 1, _LENGTH_BYTES)
        return values.astype(np.int64), after

    def values(self, begins: Array, stops: Array, kind: str, size: int) -> Array:
        """Return the values of lists, of shape (lists, size); of bytes and int64 each list has one.

        Args:
            begins: Where the values begin: numbers are packed.
            stops: Where they end.
            kind: ``bytes``, ``float`` or ``int64``.
            size: How many values there are in a list.

        Raises:
            OtherwiseError: There are others.
        """
        if kind == "float":
            require(stops - begins == 4 * size)
            floats: Array = np.ndarray(len(self._joined) - 3, "<f4", self._joined, strides=(1,))
            return floats[begins[:, None] + 4 * np.arange(size)]
        if kind == "int64":
            values, after = self._numbers(begins, _NUMBER_BYTES)
            require(after == stops)
            return values.view(np.int64)[:, None]
        return self._texts(begins, stops - begins)[:, None]

    def _texts(self, begins: Array, sizes: Array) -> Array:
        """Return bytes; short ones at once, unless one ends with a zero, which NumPy would cut off."""
        longest = int(sizes.max())
        if longest <= _SHORT and (self.bytes[begins + sizes - 1] != 0)[sizes > 0].all():
            offsets = np.arange(0, max(longest, 1), 8)
            words = self.words[begins[:, None] + offsets]
            words &= _FIRST_BYTES[(sizes[:, None] - offsets).clip(0, 8)]
            return words.view(f"S{8 * len(offsets)}")[:, 0].astype(object)
        joined, found = self._joined, np.empty(len(begins), object)
        parts = zip(begins.tolist(), (begins + sizes).tolist(), strict=True)
        found[:] = [joined[begin:stop] for begin, stop in parts]
        return found

    def _numbers(self, begins: Array, most: int) -> tuple[Array, Array]:
        """Return numbers that are written in seven bits a byte, and where the bytes after them begin."""
        parts = self.bytes[begins]
        values, after = (parts & 127).astype(np.uint64), begins + 1
        more = parts > 127
        for place in range(1, most):
            if not more.any():
                return values, after
            parts = self.bytes[after]
            values |= np.where(more, (parts & 127).astype(np.uint64) << np.uint64(7 * place), np.uint64(0))
            after = after + more
            more &= parts > 127
        require(~more)
        return values, after


def require(holds: Array) -> None:
    """Refuse examples for which something does not hold everywhere.

    Raises:
        OtherwiseError: It does not.
    """
    if not holds.all():
        raise OtherwiseError
