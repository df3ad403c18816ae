"""A write-ahead log of the changes of a server since its last snapshot."""

import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from muster._arrays import dtype_named
from muster.checkpoint import sync_directory
from muster.ps._flat_layout import Array, allocate, memory, sizes_of
from muster.ps._messages import Change

_LENGTH = struct.Struct(">Q")
_CHECKSUM = struct.Struct(">I")
_PREFIX = "changes-"
_sync = getattr(os, "fdatasync", os.fsync)  # macOS has the second alone


class Recorded(msgspec.Struct, frozen=True):
    """A change that a request has made.

    Args:
        number: Its number among those of its values, from 1; 0 for the beginning of new ones.
        origin: The random id of the values.
        client: The id of the client that has asked for it.
        message: What was asked; None for the beginning.
        at: When it was written, in seconds since the epoch.
    """

    number: int
    origin: str
    client: str = ""
    message: Change | None = None
    at: float = 0.0


Record = Callable[[Recorded, Sequence[Array]], None]
"""Writes a change, with its arrays, before it is answered."""


class _ChangeHeader(msgspec.Struct, frozen=True):
    """The header of a change in a file, whose arrays follow."""

    change: Recorded
    sizes: tuple[tuple[str, int], ...]


class Journal:
    """Keeps changes in files, each with some that follow each other, named by the number of its first one.

    Of a change that was being written when the server was killed, nothing is read.

    Args:
        folder: The folder, made when the first change is written.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self._lock = threading.Lock()
        self._path: Path | None = None  # of the file that is being added to
        self._last = -1  # the number of the last change that was written

    def write(self, change: Recorded, arrays: Sequence[Array]) -> None:
        """Write a change, after those before it; the beginning of new values instead of all others.

        Raises:
            OSError: It cannot be written.
        """
        with self._lock:
            if change.message is None:
                self._remove()
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._path or self._folder / f"{_PREFIX}{change.number:012}"
            packed = msgspec.msgpack.encode(_ChangeHeader(change, sizes_of(arrays)))
            contents = [memoryview(packed), *(memory(array) for array in arrays if array.size)]
            crc = 0
            try:
                with open(path, "wb" if self._path is None else "ab") as file:
                    file.write(_LENGTH.pack(len(packed)))
                    for content in contents:
                        file.write(content)
                        crc = zlib.crc32(content, crc)
                    file.write(_CHECKSUM.pack(crc))
                    file.flush()
                    _sync(file.fileno())
                if self._path is None:
                    sync_directory(str(self._folder))
            except OSError:
                self._path = None  # what follows could not be found behind half a change
                raise
            self._path, self._last = path, change.number

    def read(self, origin: str) -> list[tuple[Recorded, list[Array]]]:
        """Return the changes of the values of an origin that are there, in order.

        Raises:
            OSError: They cannot be read.
        """
        found: list[tuple[Recorded, list[Array]]] = []
        for path in self._paths():
            for change, arrays in _read(path):
                if change.origin == origin and (not found or change.number > found[-1][0].number):
                    found.append((change, arrays))
        return found

    def forget(self, number: int) -> None:
        """Remove the files of which all changes are in a snapshot: those up to a number."""
        with self._lock:
            paths = self._paths()
            nexts = [*map(_first, paths), self._last + 1]
            for path, following in zip(paths, nexts[1:], strict=True):
                if following <= number + 1:
                    path.unlink(missing_ok=True)
            self._path = None  # so that this file can be removed after the next snapshot

    def remove(self) -> None:
        """Remove all changes."""
        with self._lock:
            self._remove()

    def _remove(self) -> None:
        self._path = None
        for path in self._paths():
            path.unlink(missing_ok=True)

    def _paths(self) -> list[Path]:
        return sorted(self._folder.glob(f"{_PREFIX}*"), key=_first)


def _first(path: Path) -> int:
    return int(path.name.removeprefix(_PREFIX))


def _read(path: Path) -> Iterator[tuple[Recorded, list[Array]]]:
    """Yield the changes in a file, up to one that is not whole."""
    with open(path, "rb") as file:
        left = os.fstat(file.fileno()).st_size
        while len(head := file.read(_LENGTH.size)) == _LENGTH.size:
            (length,) = _LENGTH.unpack(head)
            if length > left:
                return
            packed = file.read(length)
            try:
                record = msgspec.msgpack.decode(packed, type=_ChangeHeader)
            except (msgspec.DecodeError, msgspec.ValidationError):
                return
            crc = zlib.crc32(packed)
            arrays = [allocate(size, dtype_named(name)) for name, size in record.sizes]
            for array in arrays:
                if array.size:
                    file.readinto(memory(array))
                    crc = zlib.crc32(memory(array), crc)
            if file.read(_CHECKSUM.size) != _CHECKSUM.pack(crc):
                return
            yield record.change, arrays
