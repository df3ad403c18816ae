"""Snapshots of tables, taken a piece at a time while they change."""

import uuid
from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec

from muster.ps.tables._ids import Ids
from muster.ps.tables._pieces import Array, Head, Piece
from muster.ps.tables._spec import Column


class Part(Protocol):
    """Rows that belong together."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """What each row has."""

    @property
    def knows_changes(self) -> bool:
        """Whether a snapshot can be of changes alone."""

    def begin(self, whole: bool) -> None:
        """Begin to give away rows as they are now: all, or those written since the last time it was all."""

    def take(self) -> tuple[Ids, tuple[Array, ...]] | None:
        """Return the next rows to give away; None if there are no more. Those without arrays are gone."""

    def stop(self) -> None:
        """Give away no more."""


class Snapshot:
    """A snapshot of a table as it was when this was begun.

    `next` and `close` must not run while the table is used, on another thread; what `next` returns is the
    caller's. Rows that change meanwhile are set aside, so that `next` should be called soon and often.

    Attributes:
        head: Describes it.
    """

    def __init__(self, head: Head, parts: Sequence[Part], of: "Snapshots") -> None:
        self.head = head
        self._parts = parts
        self._left = list(enumerate(parts))
        self._of = of

    def next(self) -> Piece | None:
        """Return the next piece; None if there are no more."""
        while self._left:
            number, part = self._left[0]
            if (found := part.take()) is not None:
                return Piece(number, *found)
            self._left.pop(0)
        return None

    def __iter__(self) -> Iterator[Piece]:
        """Return the pieces that are left, where nobody uses the table meanwhile."""
        while (piece := self.next()) is not None:
            yield piece

    def close(self, written: bool) -> None:
        """Say whether what was given away is kept now. After a whole one that is not, the next is whole."""
        for part in self._parts:
            part.stop()
        self._of.closed(self.head, written)


class Snapshots:
    """Begins the snapshots of a table, one at a time.

    Args:
        table: The table's name.
        parts: Its rows.
    """

    def __init__(self, table: str, parts: Sequence[Part]) -> None:
        self._parts = parts
        columns = (tuple((column.shape, column.dtype.name) for column in part.columns) for part in parts)
        self._head = Head(table=table, parts=tuple(columns), whole=True, origin="")
        self._is_open = False

    def begin(self, whole: bool, clock: int = 0) -> Snapshot:
        """Begin a snapshot: a whole one also if changes cannot be told, since none was written yet.

        Raises:
            RuntimeError: One is not closed yet.
        """
        if self._is_open:
            raise RuntimeError(f"A snapshot of table {self._head.table!r} is being taken. Close it first.")
        whole = whole or not self._head.origin or not all(part.knows_changes for part in self._parts)
        origin = uuid.uuid4().hex if whole else self._head.origin
        head = msgspec.structs.replace(self._head, whole=whole, origin=origin, clock=clock)
        for part in self._parts:
            part.begin(head.whole)
        self._is_open = True
        return Snapshot(head, self._parts, self)

    def closed(self, head: Head, written: bool) -> None:
        """Note the end of a snapshot."""
        self._is_open = False
        if head.whole:
            self._head = msgspec.structs.replace(self._head, origin=head.origin if written else "")

    def check(self, head: Head) -> None:
        """Raise ValueError if a snapshot is of a table with other rows."""
        if head.parts != self._head.parts:
            ours, theirs = (_described(each) for each in (self._head, head))
            raise ValueError(
                f"The snapshot of table {head.table!r} has other rows than table {self._head.table!r} here: "
                f"{theirs}, and {ours} here. Train with the model and the optimizer that it was written with."
            )


def _described(head: Head) -> str:
    return "; ".join(", ".join(f"{name}{list(shape)}" for shape, name in part) for part in head.parts)
