"""Parts of a checkpoint that other processes write, side by side, for the one that commits it."""

import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from muster.checkpoint._arrays import FileRecord, open_regular, write_arrays
from muster.checkpoint._layout import data_name, is_data_name
from muster.checkpoint._manifest import VariableRecord


class PartsUnderWay(Protocol):
    """Parts that are being written."""

    def wait(self) -> list[FileRecord]:
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
        """Return where the rows of each variable will be, by its name.

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


def sees_folder(folder: str, token: str) -> bool:
    """Return whether a folder is the one that the process which commits the checkpoint has made."""
    return os.path.isfile(os.path.join(folder, token))


def write_part(folder: str, file: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> FileRecord:
    """Write a part of a checkpoint, for the process that commits it, and wait until it is on the disk.

    Args:
        folder: The folder of the checkpoint.
        file: The name of the file; what a process that was killed has left there is replaced.
        arrays: Arrays by key.

    Raises:
        ValueError: The name is none of a data file.
        OSError: It cannot be written; nothing of it is left.
    """
    if not is_data_name(file):
        raise ValueError(f"{file!r} is not the name of a data file.")
    path = os.path.join(folder, file)
    with suppress(FileNotFoundError):
        os.unlink(path)
    try:
        return write_arrays(path, arrays)
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise
