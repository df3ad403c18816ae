"""Parts of a checkpoint: processes write them in parallel, and one process commits them."""

import os
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from muster._paths import local_path
from muster.checkpoint._arrays import FileRecord, fill_arrays, open_regular, write_arrays
from muster.checkpoint._keyed import ids_of
from muster.checkpoint._layout import data_name, is_data_name
from muster.checkpoint._manifest import Changes, Piece, VariableRecord


@dataclass(frozen=True)
class PartRecord:
    """Describe a file that another process has written.

    Attributes:
        file: Its size and its checksum.
        changed: The keys of the arrays of which it has only some rows: those that differ from the base.
        base: The name of another file in the folder, from an earlier checkpoint, and its record; None if
            nothing is taken from there.
        counts: How many rows with ids there are under each key, with those that are in the base.
    """

    file: FileRecord
    changed: Collection[str] = ()
    base: tuple[str, FileRecord] | None = None
    counts: Mapping[str, int] = field(default_factory=dict)


class PartsUnderWay(Protocol):
    """Parts that are being written."""

    def wait(self) -> list[PartRecord]:
        """Return the records of the files, once all of them are on the disk.

        Raises:
            CheckpointError: One cannot be written; none is being written any more.
        """


class Parts(Protocol):
    """Variables that other processes hold, each of which can write its rows into a checkpoint."""

    @property
    def writers(self) -> Sequence[str]:
        """The names of those processes, as they stand in the names of files: ``"ps-0"``."""

    def records(self, files: Sequence[str]) -> Mapping[str, VariableRecord]:
        """Return where the rows of each variable will be, by its name; how many rows with ids there are is
        known when they are written.

        Args:
            files: The name of each writer's file.
        """

    def begin(self, folder: str, token: str, files: Sequence[str]) -> PartsUnderWay | None:
        """Let all write the values that they have now; None, and nothing is written, if one does not see the
        folder.

        Args:
            folder: The folder of the checkpoint, which may be another one of this name for a writer.
            token: The name of an empty file in it, which no other folder has.
            files: The name of each writer's file.
        """

    def read(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """Return all values, by name."""


@dataclass(frozen=True)
class BegunParts:
    """Name parts that have been begun, so that they can be written and joined.

    Attributes:
        token: The name of the file by which writers know the folder.
        files: The name of each writer's file.
        records: Where the rows of each variable will be.
        under_way: The parts.
    """

    token: str
    files: Sequence[str]
    records: Mapping[str, VariableRecord]
    under_way: PartsUnderWay


def begin_parts(path: str, parts: Parts) -> BegunParts | None:
    """Let others write their parts into a checkpoint's folder, which exists; None if one does not see it.

    Raises:
        OSError: The folder cannot be written.
    """
    save = secrets.token_hex(4)
    token, files = f"parts-{save}.tmp", [data_name(save, writer) for writer in parts.writers]
    open(os.path.join(path, token), "wb", opener=open_regular).close()
    under_way = parts.begin(os.path.abspath(path), token, files)
    if under_way is None:
        return None
    return BegunParts(token, files, parts.records(files), under_way)


def finish_parts(begun: BegunParts) -> tuple[dict[str, VariableRecord], dict[str, FileRecord]]:
    """Wait for all parts, and return the records of their variables and of all files that have some of them.

    Raises:
        CheckpointError: One cannot be written.
    """
    written = dict(zip(begun.files, begun.under_way.wait(), strict=True))
    files = {name: part.file for name, part in written.items()}
    files.update(part.base for part in written.values() if part.base is not None)

    return {name: _completed(record, written) for name, record in begun.records.items()}, files


def _completed(record: VariableRecord, written: Mapping[str, PartRecord]) -> VariableRecord:
    """Return a record with what is known when the parts are written."""
    pieces: list[Piece] = []
    shape = record.shape
    for piece in record.pieces:
        part = written[piece.file]
        if piece.keyed:
            start = pieces[-1].stop if pieces else 0
            piece = replace(piece, start=start, stop=start + part.counts[piece.keyed])
            shape = (piece.stop, *shape[1:])
        if part.base is not None and (piece.keyed or piece.key) in part.changed:
            rows = ids_of(piece.keyed) if piece.keyed else changed_rows(piece.key)
            piece = replace(piece, file=part.base[0], changes=Changes(piece.file, rows, piece.key))
        pieces.append(piece)
    return replace(record, shape=shape, pieces=tuple(pieces))


def changed_rows(key: str) -> str:
    """Return the key of the numbers of those rows of an array that a part has."""
    return f"{key}#rows"


def link_base(folder: str, base: str) -> bool:
    """Let a checkpoint's folder have a data file of an earlier checkpoint, too, without a copy.

    Args:
        folder: The folder.
        base: The path of the file.

    Returns:
        Whether it has it now: not if the file is gone, or the file system has no hard links.
    """
    linked = os.path.join(folder, os.path.basename(base))
    try:
        os.link(base, linked)
    except FileExistsError:  # this checkpoint is written again
        return os.path.samefile(base, linked)
    except OSError:
        return False
    return True


def sees_folder(folder: str, token: str) -> bool:
    """Return whether a folder is the one that the process which commits the checkpoint has made."""
    return os.path.isfile(os.path.join(folder, token))


def write_part(
    folder: str,
    file: str,
    arrays: Mapping[str, np.ndarray[Any, Any]],
    blank: Mapping[str, tuple[tuple[int, ...], str]] | None = None,
    fill: Callable[[Mapping[str, np.ndarray[Any, Any]]], Iterable[int]] | None = None,
) -> FileRecord:
    """Write a part of a checkpoint, for the process that commits it, and wait until it is on the disk.

    Args:
        folder: The folder of the checkpoint.
        file: The name of the file; what a process that was killed has left there is replaced.
        arrays: Arrays by key.
        blank: The shapes and the names of the dtypes of others, which may be too large for the memory.
        fill: Given these in the file, writes their elements; see `fill_arrays`.

    Raises:
        ValueError: The name is none of a data file.
        OSError: It cannot be written; nothing of it is left.
    """
    if not is_data_name(file):
        raise ValueError(f"{file!r} is not the name of a data file.")
    path = os.path.join(local_path(folder), file)
    with suppress(FileNotFoundError):
        os.unlink(path)
    try:
        return write_arrays(path, arrays) if fill is None else fill_arrays(path, arrays, blank or {}, fill)
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise
