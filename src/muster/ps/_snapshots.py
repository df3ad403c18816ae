"""Snapshots of a server in a folder: what it goes on from, started again after it was killed."""

import contextlib
import os
import struct
import uuid
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import numpy as np

from muster._arrays import dtype_named
from muster.checkpoint import sync_directory
from muster.ps._flat_layout import Array, allocate, memory, sizes_of
from muster.ps._messages import Caller

_BLOCK = 1 << 18
_LENGTH = struct.Struct(">Q")
_CHECKSUM = struct.Struct(">I")

_T = TypeVar("_T")


class Savable(Protocol):
    """Describes a snapshot: a struct, of which ``plan`` is the part that is large and seldom changes."""

    @property
    def origin(self) -> str:
        """The random id of the initial values that these come from."""

    @property
    def plan(self) -> bytes:
        """What there is beside values."""

    @property
    def version(self) -> int:
        """How many times the values were changed."""

    @property
    def at(self) -> float:
        """When it was taken, in seconds since the epoch."""


_S = TypeVar("_S", bound=Savable)


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """Describe a snapshot: what it holds beside its values.

    Args:
        origin: The random id of the initial values that these come from.
        plan: The plan, encoded.
        version: How many times the values were changed.
        step: The global step; 0 on servers that do not keep it.
        at: When it was taken, in seconds since the epoch.
        pushes: The last push of each worker that the values contain, by its number.
    """

    origin: str
    plan: bytes
    version: int
    step: int
    at: float
    pushes: tuple[tuple[Caller, int], ...]


class _Whole(msgspec.Struct, Generic[_S], frozen=True, tag="whole"):
    """The header of a file with all values: an id, and the dtype and the number of elements of each array."""

    id: str
    saved: _S
    sizes: tuple[tuple[str, int], ...]


class _Changes(msgspec.Struct, Generic[_S], frozen=True, tag="changes"):
    """The header of a file with the blocks that have changed since another file was written, by number."""

    id: str
    saved: _S
    blocks: tuple[int, ...]


class Snapshots(Generic[_S]):
    """Keeps the newest snapshot of a server. Each is whole or absent, whatever dies and when.

    There are two files: one with all values, and one with the blocks that differ from it now. If more than
    half of them do, the first is written again.

    Args:
        folder: The folder, made when the first snapshot is written.
        kind: What describes a snapshot.
    """

    def __init__(self, folder: str | os.PathLike[str], kind: type[_S]) -> None:
        self._folder = Path(folder)
        self._whole_type: Any = _Whole[kind]  # type: ignore[valid-type]
        self._changes_type: Any = _Changes[kind]  # type: ignore[valid-type]
        self._whole, self._changes = self._folder / "values", self._folder / "changes"

    def write(self, saved: _S, arrays: Sequence[Array]) -> int:
        """Write a snapshot, and return the bytes of values that this took.

        Args:
            saved: What it says.
            arrays: Its values, flat; they must not change meanwhile.

        Raises:
            OSError: It cannot be written. The one before is still there.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        blocks = list(_blocks(arrays))
        if (found := self._changed(saved, blocks)) is not None:
            base, changed = found
            changes = _Changes(base, _with_plan(saved, b""), tuple(changed))
            return _write(self._changes, changes, [blocks[number] for number in changed])
        sizes = sizes_of(arrays)
        written = _write(self._whole, _Whole(uuid.uuid4().hex, saved, sizes), blocks)
        self._changes.unlink(missing_ok=True)  # it was about the file before
        return written

    def read(self, origin: str) -> tuple[_S, list[Array]] | None:
        """Return the newest snapshot of values of an origin, and the values; None if there is none.

        Raises:
            OSError: It cannot be read.
            ValueError: A file is not what was written.
        """
        if not self._whole.exists():
            return None
        _check(self._whole)
        whole, content = _open(self._whole, self._whole_type)
        if whole.saved.origin != origin:
            return None
        arrays = [allocate(size, dtype_named(name)) for name, size in whole.sizes]
        blocks = list(_blocks(arrays))
        _fill(self._whole, content, blocks)
        if not self._changes.exists():
            return whole.saved, arrays
        _check(self._changes)
        changes, content = _open(self._changes, self._changes_type)
        if changes.id != whole.id:  # the file that it was about is gone
            return whole.saved, arrays
        _fill(self._changes, content, [blocks[number] for number in changes.blocks])
        return _with_plan(changes.saved, whole.saved.plan), arrays

    def remove(self) -> None:
        """Remove the snapshot."""
        for path in (self._changes, self._whole):
            for each in (path, _partial(path)):
                each.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # something else is there, or nothing at all
            self._folder.rmdir()

    def _changed(self, saved: _S, blocks: Sequence[memoryview]) -> tuple[str, list[int]] | None:
        """Return the id of the file with all values, and the blocks that differ from it; None if that cannot
        be said, or if they are many."""
        try:
            whole, content = _open(self._whole, self._whole_type)
        except (OSError, ValueError):
            return None  # there is none yet, or it is of no use
        is_same = whole.saved.origin == saved.origin and whole.saved.plan == saved.plan
        if not is_same or len(content) != sum(map(len, blocks)):
            return None
        changed, start, left = [], 0, len(content) // 2
        for number, block in enumerate(blocks):
            if not np.array_equal(content[start : start + len(block)], np.frombuffer(block, np.uint8)):
                changed.append(number)
                left -= len(block)
                if left < 0:
                    return None
            start += len(block)
        return whole.id, changed


def _with_plan(saved: _S, plan: bytes) -> _S:
    described: Any = saved
    replaced: _S = msgspec.structs.replace(described, plan=plan)
    return replaced


def _blocks(arrays: Sequence[Array]) -> Iterator[memoryview]:
    for array in arrays:
        if array.size:
            view = memory(array)
            for start in range(0, len(view), _BLOCK):
                yield view[start : start + _BLOCK]


def _write(path: Path, header: msgspec.Struct, blocks: Sequence[memoryview]) -> int:
    """Write a file that is whole or absent, and return the size of its blocks."""
    packed = msgspec.msgpack.encode(header)
    partial = _partial(path)
    try:
        with open(partial, "wb") as file:
            file.write(_LENGTH.pack(len(packed)) + packed)
            crc = zlib.crc32(packed)
            for block in blocks:
                file.write(block)
                crc = zlib.crc32(block, crc)
            file.write(_CHECKSUM.pack(crc))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink()  # on a full disk, others need the space
        raise
    sync_directory(str(path.parent))
    return sum(map(len, blocks))


def _check(path: Path) -> None:
    """Raise ValueError if a file does not have its checksum."""
    content = np.memmap(path, np.uint8, "r").data
    end = len(content) - _CHECKSUM.size
    if end < 0 or content[end:] != _CHECKSUM.pack(zlib.crc32(content[_LENGTH.size : end])):
        raise ValueError(f"{path} is damaged: it is no snapshot that was written whole.")


def _open(path: Path, kind: type[_T]) -> tuple[_T, Array]:
    """Return the header of a file, and the bytes that follow, which are read when they are looked at.

    Raises:
        OSError: It cannot be read.
        ValueError: It is something else.
    """
    content = np.memmap(path, np.uint8, "r")  # ValueError if it is empty
    try:
        (length,) = _LENGTH.unpack_from(content.data)
        start = _LENGTH.size + length
        header = msgspec.msgpack.decode(content[_LENGTH.size : start].tobytes(), type=kind)
    except (struct.error, msgspec.DecodeError, msgspec.ValidationError) as exc:
        raise ValueError(f"{path} is no snapshot: {exc}") from exc
    return header, content[start : -_CHECKSUM.size]


def _fill(path: Path, content: Array, blocks: Sequence[memoryview]) -> None:
    """Copy the content of a file into blocks of memory.

    Raises:
        ValueError: It has another length.
    """
    if len(content) != (wanted := sum(map(len, blocks))):
        raise ValueError(f"{path} has {len(content)} bytes of values where {wanted} were written.")
    start = 0
    for block in blocks:
        block[:] = content[start : start + len(block)].data
        start += len(block)


def _partial(path: Path) -> Path:
    return path.with_suffix(".partial")
