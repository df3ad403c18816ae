"""Files of snapshots: a header, blocks of bytes and pieces of rows. Each is whole or absent."""

import contextlib
import itertools
import math
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from muster._arrays import dtype_named
from muster.checkpoint import sync_directory
from muster.ps._flat_layout import Array, memory
from muster.ps._row_snapshots import RowLayout, RowPiece

_LENGTH = struct.Struct(">Q")
_CHECKSUM = struct.Struct(">I")
_ID: tuple[tuple[int, ...], str] = ((), "int64")

_T = TypeVar("_T")


class _PieceHeader(msgspec.Struct, frozen=True, array_like=True):
    """The header of a piece: its part, its number of rows, and a flag for removed rows."""

    part: int
    count: int
    gone: bool


def write_file(
    path: Path, header: msgspec.Struct, blocks: Iterable[memoryview], pieces: Iterable[RowPiece] = ()
) -> int:
    """Write a file that is whole or absent, and return the size of what follows its header.

    Raises:
        OSError: It cannot be written. What was there before still is.
    """
    partial = partial_path(path)
    try:
        with open(partial, "wb") as file:
            packed = _packed(header)
            of_pieces = (content for piece in pieces for content in _contents(piece))
            crc = 0
            for content in itertools.chain([packed], blocks, of_pieces):
                file.write(content)
                crc = zlib.crc32(content, crc)
            size = file.tell() - len(packed)
            file.write(_CHECKSUM.pack(crc))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()  # on a full disk, others need the space
        raise
    sync_directory(str(path.parent))
    return size


def check_file(path: Path) -> None:
    """Raise ValueError if a file does not have its checksum."""
    content = np.memmap(path, np.uint8, "r").data  # ValueError if it is empty
    end = len(content) - _CHECKSUM.size
    if end < 0 or content[end:] != _CHECKSUM.pack(zlib.crc32(content[:end])):
        raise ValueError(f"{path} is damaged: it is no snapshot that was written whole.")


def open_file(path: Path, kind: type[_T]) -> tuple[_T, Array]:
    """Return the header of a file, and the bytes that follow, which are read when they are looked at.

    Raises:
        OSError: It cannot be read.
        ValueError: It is something else.
    """
    content = np.memmap(path, np.uint8, "r")  # ValueError if it is empty
    try:
        header, start = _unpacked(content.data, 0, kind)
    except (struct.error, msgspec.DecodeError, msgspec.ValidationError) as exc:
        raise ValueError(f"{path} is no snapshot: {exc}") from exc
    return header, content[start : -_CHECKSUM.size]


def fill_blocks(path: Path, content: Array, blocks: Sequence[memoryview]) -> Array:
    """Copy the content of a file into blocks of memory, and return what is left of it.

    Raises:
        ValueError: It is shorter.
    """
    if len(content) < (wanted := sum(map(len, blocks))):
        raise ValueError(f"{path} has {len(content)} bytes of values where {wanted} were written.")
    start = 0
    for block in blocks:
        block[:] = content[start : start + len(block)].data
        start += len(block)
    return content[start:]


def read_pieces(content: Array, layouts: Sequence[RowLayout]) -> Iterator[RowPiece]:
    """Return the pieces in the content of a file that was checked, read as they are asked for."""
    view, start = content.data, 0
    while start < len(view):
        record, start = _unpacked(view, start, _PieceHeader)
        arrays: list[Array] = []
        for shape, name in [_ID] if record.gone else [_ID, *layouts[record.part]]:
            dtype = dtype_named(name)
            size = record.count * math.prod(shape) * dtype.itemsize
            # In memory of its own, where it is aligned.
            arrays.append(np.frombuffer(bytes(view[start : start + size]), dtype).reshape(-1, *shape))
            start += size
        yield RowPiece(record.part, arrays[0], tuple(arrays[1:]))


def partial_path(path: Path) -> Path:
    """Return where a file is while it is being written."""
    return path.with_suffix(".partial")


def _contents(piece: RowPiece) -> Iterator[Any]:
    yield _packed(_PieceHeader(piece.part, len(piece.ids), not piece.arrays))
    for array in (piece.ids, *piece.arrays):
        yield memory(np.ascontiguousarray(array).reshape(-1))


def _packed(header: msgspec.Struct) -> bytes:
    packed = msgspec.msgpack.encode(header)
    return _LENGTH.pack(len(packed)) + packed


def _unpacked(content: memoryview, start: int, kind: type[_T]) -> tuple[_T, int]:
    (length,) = _LENGTH.unpack_from(content, start)
    start += _LENGTH.size
    return msgspec.msgpack.decode(content[start : start + length], type=kind), start + length
