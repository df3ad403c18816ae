"""Streams of handles, and the elements that nodes load for them."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from muster.data.pipeline._spec import stack
from muster.data.pipeline._structure import flatten, rebuild

Handles = np.ndarray[Any, Any] | list[Any]
"""Row numbers, int64 of shape (n,) or (n, width), or a list of opaque handles."""

_SKIP_BLOCK = 4096


class Stacked(NamedTuple):
    """Elements as one structure of arrays of shape (size, ...)."""

    columns: Any
    size: int


Loaded = Stacked | list[Any]
"""Elements stacked, or in a list, as the node computes them."""


def unstacked(loaded: Loaded) -> list[Any]:
    """Return elements as a list."""
    if isinstance(loaded, list):
        return loaded
    arrays = flatten(loaded.columns)
    return [rebuild(loaded.columns, [array[i] for array in arrays]) for i in range(loaded.size)]


def stacked(loaded: Loaded) -> Any:
    """Return elements as one structure of arrays.

    Raises:
        DatasetError: They differ in structure, shape or type.
    """
    return loaded.columns if isinstance(loaded, Stacked) else stack(loaded)


def join(parts: Sequence[Handles]) -> Handles:
    """Concatenate handles of one node."""
    filled = [part for part in parts if len(part)]
    if len(filled) <= 1:
        return filled[0] if filled else []
    if isinstance(filled[0], np.ndarray):
        return np.concatenate(filled)
    return [handle for part in filled for handle in part]


class Stream(ABC):
    """An iterator over handles, for one iteration and one thread."""

    def __init__(self, *sources: "Stream"):
        self.sources = sources

    @abstractmethod
    def pull(self, count: int) -> Handles:
        """Return the next `count` handles, fewer only at the end. Reads no further."""

    def skip(self, count: int) -> int:
        """Skip up to `count` handles and return how many there were."""
        done = 0
        while done < count:
            wanted = min(count - done, _SKIP_BLOCK)
            got = len(self.pull(wanted))
            done += got
            if got < wanted:
                break
        return done

    def close(self) -> None:
        """Close the files and generators of this stream and of its sources."""
        for source in self.sources:
            source.close()


class Chain(Stream):
    """Concatenated streams, of which one is open at a time.

    Attributes:
        empty: Whether the last stream that was opened has had no handles yet.
    """

    def __init__(self) -> None:
        super().__init__()
        self._open: Stream | None = None
        self.empty = False

    @abstractmethod
    def open_next(self) -> Stream | None:
        """Open the next stream, or return None at the end."""

    @abstractmethod
    def skip_unopened(self, count: int) -> int:
        """Skip the next streams of at most `count` handles in all, without opening them; return how many."""

    def pull(self, count: int) -> Handles:
        pieces: list[Handles] = []
        while count and (stream := self._current()) is not None:
            piece = stream.pull(count)
            self.empty = self.empty and not len(piece)
            if len(piece) == count and not pieces:
                return piece
            pieces.append(piece)
            count -= len(piece)
            if count:
                self._end()
        return join(pieces)

    def skip(self, count: int) -> int:
        done = self.skip_unopened(count) if self._open is None else 0
        while done < count and (stream := self._current()) is not None:
            passed = stream.skip(count - done)
            self.empty = self.empty and not passed
            done += passed
            if done < count:
                self._end()
                done += self.skip_unopened(count - done)
        return done

    def close(self) -> None:
        self._end()

    def _current(self) -> Stream | None:
        if self._open is None:
            self._open = self.open_next()
            self.empty = self._open is not None or self.empty
        return self._open

    def _end(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


class RowNumbers(Stream):
    """Row numbers from 0 to `count` - 1."""

    def __init__(self, count: int):
        super().__init__()
        self._next = 0
        self._count = count

    def pull(self, count: int) -> Handles:
        first = self._next
        self._next = min(first + count, self._count)
        return np.arange(first, self._next)

    def skip(self, count: int) -> int:
        first = self._next
        self._next = min(first + count, self._count)
        return self._next - first
