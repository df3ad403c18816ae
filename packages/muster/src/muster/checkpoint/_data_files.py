"""The data files of a checkpoint: checking them, reading their arrays, and leaving large ones in them."""

import functools
import os
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, BinaryIO, Self

import numpy as np

from muster._arrays import dtype_named
from muster._errors import DamagedCheckpointError
from muster.checkpoint import _mapped_array
from muster.checkpoint._arrays import FileRecord, open_regular, places_in, read_arrays
from muster.checkpoint._manifest import Piece, VariableRecord
from muster.checkpoint._mapped_array import ArrayPlace, MappedArray, MappedFile, MappedRows

Arrays = Mapping[str, np.ndarray[Any, Any]]
# How many files are known to have been checked, at most.
_REMEMBERED = 1 << 12


@dataclass(frozen=True)
class MappedArrays:
    """A file that is mapped into memory, and where its arrays begin, by key."""

    file: MappedFile
    places: Mapping[str, int]

    def at(self, key: str) -> ArrayPlace:
        """Return where an array is."""
        return ArrayPlace(self.file, self.places[key])


class DataFiles:
    """The data files of a checkpoint, open from entering it on: what is deleted since can still be read.

    Args:
        path: The folder of the checkpoint.
        records: The size and the checksum of each file, by name.
    """

    def __init__(self, path: str, records: Mapping[str, FileRecord]) -> None:
        self._path = path
        self._records = records
        self._stack = ExitStack()
        self._opened: dict[str, BinaryIO] = {}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for name in self._records:
                path = os.path.join(self._path, name)
                self._opened[name] = stack.enter_context(open(path, "rb", buffering=0, opener=open_regular))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    def check(self) -> None:
        """Check every byte.

        Raises:
            DamagedCheckpointError: The size or the checksum of a file differs.
            OSError: One cannot be read.
        """
        for name, record in self._records.items():
            read_arrays(self._opened[name], os.path.join(self._path, name), record, _All())

    def read(self, leave: Container[str], *, once: bool) -> dict[str, Arrays]:
        """Return the bytes of the arrays of each file, by key, and check all bytes.

        Args:
            leave: The keys of arrays that are left out.
            once: Whether a file that this process has checked before, and that is the same, is not checked
                again: such as one that several checkpoints have in common.

        Raises:
            DamagedCheckpointError: The size or the checksum of a file differs.
            OSError: One cannot be read.
        """
        found: dict[str, Arrays] = {}
        for name, record in self._records.items():
            file, path = self._opened[name], os.path.join(self._path, name)
            if once:
                status = os.fstat(file.fileno())
                identity = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
                _check_once(_Unchecked(identity, record, file, path))
            file.seek(0)
            found[name] = read_arrays(file, path, record, leave, checked=once)
        return found

    def mapped(self, variables: Iterable[VariableRecord]) -> dict[str, MappedArrays]:
        """Return the files that have rows of some variables, mapped into memory, by name; read them first."""
        names = dict.fromkeys(
            name
            for record in variables
            for piece in record.pieces
            for name in (piece.file, *([piece.changes.file] if piece.changes else []))
        )
        return {
            name: MappedArrays(MappedFile(self._opened[name]), places_in(self._opened[name]))
            for name in names
        }


class _All:
    """Contains every key."""

    def __contains__(self, key: object) -> bool:
        return True


@dataclass(frozen=True)
class _Unchecked:
    """A file, equal to itself under another name as long as it has not been written to."""

    identity: tuple[int, ...]
    record: FileRecord
    file: BinaryIO = field(compare=False)
    path: str = field(compare=False)


@functools.lru_cache(maxsize=_REMEMBERED)
def _check_once(unchecked: _Unchecked) -> None:
    read_arrays(unchecked.file, unchecked.path, unchecked.record, _All())


def may_stay(record: VariableRecord) -> bool:
    """Return whether a variable is large, and its rows can be found in its files by their numbers."""
    return bool(record.shape) and record.nbytes >= _mapped_array.LEAST_MAPPED_BYTES and not record.is_keyed


def map_variable(
    path: str,
    name: str,
    record: VariableRecord,
    arrays: Mapping[str, Arrays],
    maps: Mapping[str, MappedArrays],
) -> MappedArray:
    """Return a variable that stays in its files.

    Args:
        path: The path of the checkpoint.
        name: The name of the variable.
        record: Where its rows are.
        arrays: What was read of each file, by key: the numbers of rows that have changed.
        maps: The files, by name.
    """
    parts = []
    for piece in pieces_in_order(path, name, record):
        numbers = changed = None
        if (changes := piece.changes) is not None:
            numbers = arrays[changes.file][changes.rows].view(np.int64).copy()
            changed = maps[changes.file].at(changes.key)
        parts.append(MappedRows(piece.start, piece.stop, maps[piece.file].at(piece.key), numbers, changed))
    return MappedArray(record.shape, dtype_named(record.dtype), parts)


def pieces_in_order(path: str, name: str, record: VariableRecord) -> Sequence[Piece]:
    """Return the pieces of a variable in the order of its rows.

    Raises:
        DamagedCheckpointError: They do not have each row once.
    """
    pieces = sorted(record.pieces, key=lambda piece: piece.start)
    ends = [0, *(piece.stop for piece in pieces)]
    rows = record.shape[0] if record.shape else 1
    if [piece.start for piece in pieces] != ends[:-1] or ends[-1] != rows:
        spans = ", ".join(f"{piece.start}:{piece.stop}" for piece in pieces)
        raise DamagedCheckpointError(
            f"{path}: the {rows} rows of {name!r} are not covered once each by {spans}."
        )
    return pieces
