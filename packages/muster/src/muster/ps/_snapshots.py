"""Snapshots of a server in a folder, from which a restarted server continues."""

import contextlib
import itertools
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from muster._arrays import dtype_named
from muster.ps._flat_layout import Array, allocate, memory, sizes_of
from muster.ps._messages import SharedInput
from muster.ps._row_snapshots import RowLayout, RowPiece, RowSnapshot
from muster.ps._snapshot_files import (
    check_file,
    fill_blocks,
    open_file,
    partial_path,
    read_pieces,
    write_file,
)

_BLOCK = 1 << 18


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """Describe a snapshot: what it holds beside its values.

    Args:
        origin: The random id of the program, or of the initial values that these come from.
        plan: The arrays, functions and plan, encoded.
        version: How many times the values were changed.
        at: When it was taken, in seconds since the epoch.
        changes: How many recorded changes they contain.
        applied: The requests of each source that they contain: those below a number, and others.
        clocks: How many pushes each hashed table has seen.
        step: The global step; on servers that do not keep it, how many steps came with tickets.
        open: The tickets of steps that were not made, among those that were given out.
        shared: The pass over the data, if workers share one.
    """

    origin: str
    plan: bytes
    version: int
    at: float
    changes: int = 0
    applied: dict[str, tuple[int, tuple[int, ...]]] = {}
    clocks: dict[str, int] = {}
    step: int = 0
    open: tuple[int, ...] = ()
    shared: SharedInput | None = None


class Taken(NamedTuple):
    """All that a server needs to go on.

    Attributes:
        saved: Describes it.
        arrays: Values, flat, which do not change.
        rows: Rows of tables, which do; None for none.
    """

    saved: Saved
    arrays: tuple[Array, ...]
    rows: RowSnapshot | None = None


class _Whole(msgspec.Struct, frozen=True, tag="whole"):
    """The header of a file with all values: an id, the dtype and the number of elements of each array, and
    what the rows have that follow."""

    id: str
    saved: Saved
    sizes: tuple[tuple[str, int], ...]
    rows: tuple[RowLayout, ...] = ()


class _Changes(msgspec.Struct, frozen=True, tag="changes"):
    """The header of a file with what has changed since another file was written: blocks by number, and
    rows."""

    id: str
    saved: Saved
    blocks: tuple[int, ...]


class Snapshots:
    """Keeps the newest snapshot of a server. Each is whole or absent, whatever dies and when.

    There are two files: one with all values, and one with the blocks that differ from it now. If more than
    half of them do, the first is written again.

    Args:
        folder: The folder, made when the first snapshot is written.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self._whole, self._changes = self._folder / "values", self._folder / "changes"
        self._restarts = self._folder / "restarts"

    def write(self, saved: Saved, arrays: Sequence[Array], rows: RowSnapshot | None = None) -> int:
        """Write a snapshot, and return the bytes of values that this took.

        Args:
            saved: What it says.
            arrays: Its values, flat; they must not change meanwhile.
            rows: Rows of tables.

        Raises:
            OSError: It cannot be written. The one before is still there.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        blocks = list(_blocks(arrays))
        if rows is None or not rows.whole:
            if (found := self._changed(saved, blocks, limited=rows is None)) is not None:
                base, changed = found
                changes = _Changes(base, msgspec.structs.replace(saved, plan=b""), tuple(changed))
                return write_file(self._changes, changes, [blocks[number] for number in changed], rows or ())
            if rows is not None:
                raise FileNotFoundError(f"{self._whole} with all rows is there no more")
        whole = _Whole(uuid.uuid4().hex, saved, sizes_of(arrays), rows.layouts if rows else ())
        written = write_file(self._whole, whole, blocks, rows or ())
        self._changes.unlink(missing_ok=True)  # it was about the file before
        return written

    def read(self, origin: str) -> tuple[Saved, list[Array], Iterable[RowPiece]] | None:
        """Return the newest snapshot of values of an origin, the values, and rows; None if there is none.

        Rows come in pieces, in which those that come later count. They are read as they are asked for.

        Raises:
            OSError: It cannot be read.
            ValueError: A file is not what was written.
        """
        if not self._whole.exists():
            return None
        check_file(self._whole)
        whole, content = open_file(self._whole, _Whole)
        if whole.saved.origin != origin:
            return None
        arrays = [allocate(size, dtype_named(name)) for name, size in whole.sizes]
        blocks = list(_blocks(arrays))
        pieces = read_pieces(fill_blocks(self._whole, content, blocks), whole.rows)
        if not self._changes.exists():
            return whole.saved, arrays, pieces
        check_file(self._changes)
        changes, content = open_file(self._changes, _Changes)
        if changes.id != whole.id:  # the file that it was about is gone
            return whole.saved, arrays, pieces
        left = fill_blocks(self._changes, content, [blocks[number] for number in changes.blocks])
        changed = read_pieces(left, whole.rows)
        return (
            msgspec.structs.replace(changes.saved, plan=whole.saved.plan),
            arrays,
            itertools.chain(pieces, changed),
        )

    def count_restart(self) -> int:
        """Count that a server goes on from here, in a file; return how often one has.

        Raises:
            OSError: It cannot be read or written.
            ValueError: It holds something else.
        """
        count = 1 + (int(self._restarts.read_text()) if self._restarts.exists() else 0)
        partial = partial_path(self._restarts)
        partial.write_text(str(count))
        partial.replace(self._restarts)
        return count

    def remove(self) -> None:
        """Remove the snapshot, and the count of restarts."""
        for path in (self._changes, self._whole, self._restarts):
            for each in (path, partial_path(path)):
                each.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # something else is there, or nothing at all
            self._folder.rmdir()

    def _changed(
        self, saved: Saved, blocks: Sequence[memoryview], *, limited: bool
    ) -> tuple[str, list[int]] | None:
        """Return the id of the file with all values, and the blocks that differ from it; None if that cannot
        be said, or, where they are limited, if they are many."""
        try:
            whole, content = open_file(self._whole, _Whole)
        except (OSError, ValueError):
            return None  # there is none yet, or it is of no use
        is_same = whole.saved.origin == saved.origin and whole.saved.plan == saved.plan
        size = sum(map(len, blocks))
        if not is_same or len(content) < size or (limited and len(content) > size):
            return None
        changed, start, left = [], 0, size // 2 if limited else size
        for number, block in enumerate(blocks):
            if not np.array_equal(content[start : start + len(block)], np.frombuffer(block, np.uint8)):
                changed.append(number)
                left -= len(block)
                if left < 0:
                    return None
            start += len(block)
        return whole.id, changed


def _blocks(arrays: Sequence[Array]) -> Iterator[memoryview]:
    for array in arrays:
        if array.size:
            view = memory(array)
            for start in range(0, len(view), _BLOCK):
                yield view[start : start + _BLOCK]
