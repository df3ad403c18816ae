"""Rows that are read in chunks of columns."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from muster.data.files._files import SequentialFiles
from muster.data.pipeline._handles import Handles, Loaded, Stacked, Stream
from muster.data.pipeline._node import Run
from muster.data.pipeline._spec import TensorSpec, object_array
from muster.data.pipeline._structure import rebuild

Column = np.ndarray[Any, Any]


class Chunk(ABC):
    """Consecutive rows of a file, which are converted to arrays on demand."""

    def __init__(self, rows: int):
        self.rows = rows

    @cached_property
    @abstractmethod
    def columns(self) -> list[Column]:
        """The arrays, of shape (rows, ...)."""

    def part(self, start: int, stop: int) -> list[Column]:
        """Return the columns of rows `start` to `stop` - 1.

        Raises:
            DatasetError: A row cannot be read.
        """
        return [column[start:stop] for column in self.columns]

    def row(self, number: int) -> list[Any]:
        """Return the values of one row.

        Raises:
            DatasetError: The row cannot be read.
        """
        return [column[number] for column in self.columns]


class _Row(msgspec.Struct, gc=False):
    """A handle. Python's garbage collector need not look at it: a chunk refers to no handle.

    Attributes:
        chunk: A chunk.
        number: The number of a row in it.
    """

    chunk: Chunk
    number: int


class ChunkedFiles(SequentialFiles):
    """Files whose rows have one spec, so that batches are gathered from columns.

    Args:
        files: Paths.
        template: A structure like an element, with anything at its leaves.
        specs: The specs of the leaves.
    """

    uniform = True

    def __init__(self, files: tuple[str, ...], template: Any, specs: list[TensorSpec]):
        super().__init__(files)
        self.template = template
        self.specs = specs

    @property
    def element_spec(self) -> Any:
        return rebuild(self.template, self.specs)

    def load(self, run: Run, handles: Handles) -> Loaded:
        columns = [
            np.empty([0, *(size or 0 for size in spec.shape or ())], spec.dtype) for spec in self.specs
        ]
        if len(handles):
            columns = _gathered(list(handles))
        return Stacked(rebuild(self.template, columns), len(handles))


def _gathered(handles: list[_Row]) -> list[Column]:
    runs = _runs(handles)
    if len(runs) == 1:
        chunk, start, stop = runs[0]
        return chunk.part(start, stop)
    if 4 * len(runs) <= len(handles):
        parts = [chunk.part(start, stop) for chunk, start, stop in runs]
        return [np.concatenate(pieces) for pieces in zip(*parts, strict=True)]
    rows = [handle.chunk.row(handle.number) for handle in handles]
    return [_column(values) for values in zip(*rows, strict=True)]


def _runs(handles: list[_Row]) -> list[tuple[Chunk, int, int]]:
    """Group consecutive rows of a chunk: the chunk, the first row, and the row after the last."""
    runs: list[tuple[Chunk, int, int]] = []
    chunk, start = handles[0].chunk, handles[0].number
    stop = start
    for handle in handles:
        if handle.chunk is not chunk or handle.number != stop:
            runs.append((chunk, start, stop))
            chunk, start = handle.chunk, handle.number
        stop = handle.number + 1
    return [*runs, (chunk, start, stop)]


def _column(values: tuple[Any, ...]) -> Column:
    if isinstance(values[0], np.ndarray):
        return np.stack(values)
    return np.array(values) if isinstance(values[0], np.generic | str) else object_array(values)


class ChunkStream(Stream):
    """A stream of the rows of chunks."""

    def __init__(self, chunks: Iterator[Chunk]):
        super().__init__()
        self._chunks = chunks
        self._chunk: Chunk | None = None
        self._next = 0

    def pull(self, count: int) -> Handles:
        pulled: list[Any] = []
        while len(pulled) < count and (chunk := self._current()) is not None:
            stop = min(chunk.rows, self._next + count - len(pulled))
            pulled += [_Row(chunk, number) for number in range(self._next, stop)]
            self._next = stop
        return pulled

    def skip(self, count: int) -> int:
        done = 0
        while done < count and (chunk := self._current()) is not None:
            passed = min(chunk.rows - self._next, count - done)
            self._next += passed
            done += passed
        return done

    def _current(self) -> Chunk | None:
        """Return the chunk of the next row, or None at the end."""
        while self._chunk is None or self._next == self._chunk.rows:
            self._chunk = next(self._chunks, None)
            self._next = 0
            if self._chunk is None:
                return None
        return self._chunk
