"""Files with a snapshot of a table: each is whole or absent, and is written and read a piece at a time."""

import contextlib
import math
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
import numpy as np

from muster._arrays import dtype_named
from muster.checkpoint import sync_directory
from muster.ps._flat_layout import memory
from muster.ps.tables._pieces import Array, Head, Piece

_LENGTH = struct.Struct(">Q")
_CHECKSUM = struct.Struct(">I")
_ID: tuple[tuple[int, ...], str] = ((), "int64")

_T = TypeVar("_T")


class _Record(msgspec.Struct, frozen=True, array_like=True):
    """What comes before the bytes of a piece: its part, how many rows it has, and whether they are gone."""

    part: int
    count: int
    gone: bool


class Restorable(Protocol):
    """A table."""

    def restore(self, head: Head, pieces: Iterable[Piece]) -> None:
        """Take up rows of a snapshot."""


def write_pieces(path: str | os.PathLike[str], head: Head, take: Callable[[], Piece | None]) -> int:
    """Write a snapshot into a file, and return its size in bytes.

    Args:
        path: The file, in a folder that exists; one that is there is replaced at the end.
        head: Describes the snapshot.
        take: Returns the next piece, and None after the last.

    Raises:
        OSError: It cannot be written. Nothing of it is left, and what was there before is.
    """
    path = Path(path)
    partial = path.with_name(f"{path.name}.partial")
    try:
        with open(partial, "wb") as file:
            crc = 0

            def put(content: bytes | memoryview) -> None:
                nonlocal crc
                file.write(content)
                crc = zlib.crc32(content, crc)

            put(_packed(head))
            while (piece := take()) is not None:
                put(_packed(_Record(piece.part, len(piece.ids), not piece.arrays)))
                for array in (piece.ids, *piece.arrays):
                    put(memory(np.ascontiguousarray(array).reshape(-1)))
            file.write(_CHECKSUM.pack(crc))
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        partial.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()  # on a full disk, others need the space
        raise
    sync_directory(str(path.parent))
    return size


def read_pieces(path: str | os.PathLike[str]) -> tuple[Head, Iterator[Piece]]:
    """Return a snapshot in a file, whose pieces are read as they are asked for.

    Raises:
        OSError: It cannot be read.
        ValueError: It is not what was written.
    """
    content = np.memmap(path, np.uint8, "r").data if os.path.getsize(path) else memoryview(b"")
    end = len(content) - _CHECKSUM.size
    if end < 0 or content[end:] != _CHECKSUM.pack(zlib.crc32(content[:end])):
        raise ValueError(
            f"{os.fspath(path)} is damaged: it is no snapshot of a table that was written whole."
        )
    head, start = _unpacked(content, 0, Head)
    return head, _pieces(content[:end], start, head)


def restore_files(table: Restorable, paths: Sequence[str | os.PathLike[str]]) -> None:
    """Restore a table from files of whole snapshots and of changes since these: those of all servers.

    The table may lie on another number of servers now: each takes what is its own from all files.

    Raises:
        OSError: A file cannot be read.
        ValueError: A file is damaged, or of another table, or of changes since a snapshot that is missing.
    """
    found = [read_pieces(path) for path in paths]
    whole = {head.origin for head, _ in found if head.whole}
    for path, (head, _) in zip(paths, found, strict=True):
        if head.origin not in whole:
            raise ValueError(
                f"{os.fspath(path)} has only what changed in table {head.table!r} since another snapshot was "
                "written, which is missing."
            )
    for head, pieces in sorted(found, key=lambda each: not each[0].whole):
        table.restore(head, pieces)


def _pieces(content: memoryview, start: int, head: Head) -> Iterator[Piece]:
    while start < len(content):
        record, start = _unpacked(content, start, _Record)
        arrays: list[Array] = []
        for shape, name in [_ID] if record.gone else [_ID, *head.parts[record.part]]:
            dtype = dtype_named(name)
            size = record.count * math.prod(shape) * dtype.itemsize
            # In memory of its own, where it is aligned.
            arrays.append(np.frombuffer(bytes(content[start : start + size]), dtype).reshape(-1, *shape))
            start += size
        yield Piece(record.part, arrays[0], tuple(arrays[1:]))


def _packed(header: Head | _Record) -> bytes:
    packed = msgspec.msgpack.encode(header)
    return _LENGTH.pack(len(packed)) + packed


def _unpacked(content: memoryview, start: int, kind: type[_T]) -> tuple[_T, int]:
    (length,) = _LENGTH.unpack_from(content, start)
    start += _LENGTH.size
    return msgspec.msgpack.decode(content[start : start + length], type=kind), start + length
