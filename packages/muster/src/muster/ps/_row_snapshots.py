"""Snapshot rows in pieces while they change."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from muster.ps._flat_layout import Array

# The shape for a row and the name of the dtype of each array.
RowLayout = tuple[tuple[tuple[int, ...], str], ...]


class RowPiece(NamedTuple):
    """Some rows, in any order; a snapshot has each row once.

    Attributes:
        part: The number of the part that they belong to.
        ids: What they are found by there, of shape (n,).
        arrays: What is kept for them, each of n rows; none if these rows are gone.
    """

    part: int
    ids: npt.NDArray[np.int64]
    arrays: tuple[Array, ...]


class SnapshotPart(Protocol):
    """Rows that belong together. While they are taken, on one thread, another may change them."""

    @property
    def layout(self) -> RowLayout:
        """The layout of a row."""

    @property
    def nbytes(self) -> int:
        """The memory that they take, in bytes."""

    @property
    def changed_nbytes(self) -> int | None:
        """That of those written since the last time that all were given away; None if that is not known."""

    @property
    def rows(self) -> int:
        """The number of rows still to be taken."""

    @property
    def gone(self) -> int:
        """The number of ids of removed rows still to be taken."""

    def begin(self, whole: bool) -> None:
        """Begin to give away rows as they are now: all, or those written since the last time it was all."""

    def take(self) -> tuple[npt.NDArray[np.int64], tuple[Array, ...]] | None:
        """Return the next rows to give away; None if there are no more. Those without arrays are gone."""

    def stop(self) -> None:
        """Give away no more."""

    def restore(self, ids: npt.NDArray[np.int64], arrays: Sequence[Array]) -> None:
        """Take back what `take` gave away."""


class RowSnapshot:
    """Rows of several parts as they were when this was made.

    Args:
        parts: The parts.
        whole: Whether it has all rows; else those written since a snapshot that has all.
        closed: Called at the end with whether what was given away is kept.

    Attributes:
        whole: As given.
        layouts: What the rows of each part have.
        gone: How many rows of each part are gone.
    """

    def __init__(self, parts: Sequence[SnapshotPart], whole: bool, closed: Callable[[bool], None]) -> None:
        self.whole = whole
        self.layouts = tuple(part.layout for part in parts)
        self._parts = parts
        self._closed = closed
        for part in parts:
            part.begin(whole)
        self.gone = tuple(part.gone for part in parts)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many rows of each part are still to be taken, without those that are gone.

        To count many takes a while: it is for the thread that takes them.
        """
        return tuple(part.rows for part in self._parts)

    def __iter__(self) -> Iterator[RowPiece]:
        """Return the rows, once; soon, for rows that change meanwhile are set aside."""
        for number, part in enumerate(self._parts):
            while (found := part.take()) is not None:
                yield RowPiece(number, *found)

    def close(self, written: bool) -> None:
        """Say whether what was given away, all of it, is kept now."""
        for part in self._parts:
            part.stop()
        self._closed(written)


class RowSnapshots:
    """Decides which rows a snapshot has, one after the other."""

    def __init__(self) -> None:
        self._known: Any = None  # what the last one with all rows was of; None if it is not kept

    def begin(self, of: Any, parts: Sequence[SnapshotPart], *, whole: bool = False) -> RowSnapshot:
        """Begin a snapshot, which has all rows unless the last one is kept, and few have changed since.

        Args:
            of: What it is of, which the one before with all rows must have been of, too.
            parts: The rows.
            whole: Whether it is to have all rows in any case.
        """
        changed = [part.changed_nbytes for part in parts]
        known = [each for each in changed if each is not None]
        many = 2 * sum(known) > sum(part.nbytes for part in parts)
        whole = whole or self._known != of or len(known) < len(changed) or many

        def closed(written: bool) -> None:
            self._known = of if written else None

        return RowSnapshot(parts, whole, closed)


def as_slice(places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | slice:
    """Return ascending places as a slice, which NumPy copies faster, if they follow each other."""
    first, last = int(places[0]), int(places[-1])
    return slice(first, last + 1) if last - first == len(places) - 1 else places
