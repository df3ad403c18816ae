"""Reading checkpoints, also while another process writes and deletes them."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from muster._arrays import dtype_named
from muster._errors import CheckpointError, CheckpointNotFoundError, DamagedCheckpointError
from muster._paths import local_path
from muster.checkpoint._data_files import DataFiles, map_variable, may_stay, pieces_in_order
from muster.checkpoint._keyed import SavedTable, clock_of, gone_of, joined_piece, tables_of
from muster.checkpoint._layout import (
    checkpoint_path,
    is_complete,
    is_lost,
    is_settled,
    move_aside,
    scan,
    stray_checkpoints,
    writer_of,
)
from muster.checkpoint._manifest import FILE_NAME, Manifest, VariableRecord, decode, read_bytes, read_manifest
from muster.checkpoint._mapped_array import MappedFile

Result = TypeVar("Result")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read.

    Attributes:
        path: Its directory.
        step: The global step.
        variables: The arrays by name, writable and of the global shape. They may share one buffer, which
            lives as long as any of them: copy what is to be kept for long. What belongs to a hashed table has
            a row for each of its ids, which are under ``<name>#ids``. Of a checkpoint that was read for that,
            large ones are a `MappedArray`.
        metadata: The entries that the writer added.
        tables: The hashed tables by name, to be read in pieces.
        files: The files in which large variables lie.
    """

    path: str
    step: int
    variables: dict[str, Any]
    metadata: dict[str, Any]
    tables: dict[str, SavedTable] = field(default_factory=dict)
    files: Sequence[MappedFile] = ()

    def close(self) -> None:
        """Let go of the files; variables that lie in them can no longer be read."""
        for file in self.files:
            file.close()


@dataclass(frozen=True)
class VariableInfo:
    """The shape of a variable and the name of its dtype."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class RowsInfo:
    """Rows of a variable, as they lie in a checkpoint.

    Attributes:
        writer: Which process wrote them, such as ``"ps-0"``; empty for the one that committed the checkpoint.
        start: The first row.
        stop: The row after the last one; a scalar counts as one row.
        nbytes: Their size in bytes.
    """

    writer: str
    start: int
    stop: int
    nbytes: int


def read_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the metadata of a checkpoint, without reading its arrays.

    Raises:
        CheckpointNotFoundError: There is no checkpoint at this path.
        DamagedCheckpointError: The bytes of its manifest have changed since they were written.
        CheckpointError: It cannot be read, or has an unknown format.
    """
    return dict(read_manifest(local_path(path, remote=True)).metadata)


def list_variables(path: str | os.PathLike[str]) -> dict[str, VariableInfo]:
    """Return the shapes and dtypes of the variables of a checkpoint by name, without reading its arrays.

    Source: tensorflow/python/training/checkpoint_utils.py, ``list_variables``; with dtypes.

    Raises:
        CheckpointNotFoundError: There is no checkpoint at this path.
        DamagedCheckpointError: The bytes of its manifest have changed since they were written.
        CheckpointError: It cannot be read, or has an unknown format.
    """
    variables = read_manifest(local_path(path, remote=True)).variables
    return {name: VariableInfo(record.shape, record.dtype) for name, record in variables.items()}


def list_rows(path: str | os.PathLike[str]) -> dict[str, list[RowsInfo]]:
    """Return which process wrote which rows of each variable of a checkpoint, by name and in their order.

    Raises:
        CheckpointNotFoundError: There is no checkpoint at this path.
        DamagedCheckpointError: The bytes of its manifest have changed since they were written.
        CheckpointError: It cannot be read, or has an unknown format.
    """
    return {
        name: [
            RowsInfo(
                writer_of(piece.file),
                piece.start,
                piece.stop,
                record.nbytes * (piece.stop - piece.start) // max(1, record.shape[0] if record.shape else 1),
            )
            for piece in sorted(record.pieces, key=lambda piece: piece.start)
        ]
        for name, record in read_manifest(local_path(path, remote=True)).variables.items()
    }


def list_tables(path: str | os.PathLike[str]) -> dict[str, SavedTable]:
    """Return the hashed tables of a checkpoint by name, without reading its arrays.

    Raises:
        CheckpointNotFoundError: There is no checkpoint at this path.
        DamagedCheckpointError: The bytes of its manifest have changed since they were written.
        CheckpointError: It cannot be read, or has an unknown format.
    """
    path = local_path(path, remote=True)
    return tables_of(path, read_manifest(path))


def read_checkpoint(path: str | os.PathLike[str], *, tables: bool = True, mapped: bool = False) -> Checkpoint:
    """Read a checkpoint, and check every byte of it.

    Args:
        path: Its directory.
        tables: Whether ``variables`` has those of hashed tables, too; else they are checked only.
        mapped: Whether variables of `LEAST_MAPPED_BYTES` stay in their files, as `MappedArray`; their bytes
            are checked once in the life of this process. Close the checkpoint then.

    Raises:
        CheckpointNotFoundError: There is no checkpoint at this path, or it was deleted meanwhile.
        DamagedCheckpointError: A file is missing, or its bytes have changed since they were written.
        CheckpointError: It cannot be read, or has an unknown format.

    Example:
        ```python
        path = muster.checkpoint.write_checkpoint("runs/saved", 10, {"w": np.ones(3, np.float32)}, {})
        assert muster.checkpoint.read_checkpoint(path).variables["w"].tolist() == [1, 1, 1]
        ```
    """
    return _while_unchanged(
        local_path(path, remote=True),
        lambda path, manifest: _read(path, manifest, tables=tables, mapped=mapped),
    )


def check_checkpoint(path: str | os.PathLike[str]) -> int:
    """Check every byte of a checkpoint, keep none, and return its step; raises as `read_checkpoint` does."""

    def check(path: str, manifest: Manifest) -> int:
        with DataFiles(path, manifest.files) as files:
            files.check()
        for name, record in manifest.variables.items():
            pieces_in_order(path, name, record)
        return manifest.step

    return _while_unchanged(local_path(path, remote=True), check)


def _while_unchanged(path: str, read: Callable[[str, Manifest], Result]) -> Result:
    """Return what a function makes of a checkpoint's path and manifest, and call it again if it failed since
    the checkpoint has been replaced meanwhile."""
    while True:
        data = read_bytes(path)
        manifest = decode(data, os.path.join(path, FILE_NAME))
        try:
            return read(path, manifest)
        except OSError as exc:
            # Its writer deletes or replaces the manifest before the data. So if the manifest is no
            # longer the one that was read, look again; if it is, something is wrong.
            if read_bytes(path) != data:
                continue
            if isinstance(exc, FileNotFoundError):
                raise DamagedCheckpointError(f"{exc.filename} is missing, or not a regular file.") from exc
            raise CheckpointError(f"The checkpoint at {path} cannot be read: {exc}.") from exc


def restore_latest(
    directory: str | os.PathLike[str],
    *,
    set_aside: bool = False,
    tables: bool = True,
    mapped: bool = False,
) -> Checkpoint | None:
    """Read the newest checkpoint that is not damaged; damaged ones are skipped with a warning.

    Args:
        directory: The directory of the checkpoints.
        set_aside: Whether to rename damaged checkpoints that are newer than the one read, so that no reader
            takes them: ``.damaged`` is appended, or ``.damaged-2`` where that exists. For the process that
            goes on from the older checkpoint and writes new ones.
        tables: As of `read_checkpoint`.
        mapped: As of `read_checkpoint`.

    Returns:
        The checkpoint, or None if the directory has none.

    Raises:
        DamagedCheckpointError: There are checkpoints, and all are damaged or misplaced.
        CheckpointError: One cannot be read for another reason, has an unknown format, or was renamed.
    """
    directory = local_path(directory, remote=True)
    while True:
        damaged: dict[str, DamagedCheckpointError] = {}
        paths = scan(directory)
        try:
            checkpoint = _newest_undamaged(paths, damaged, tables, mapped)
        except CheckpointNotFoundError:
            continue  # deleted since the directory was listed, because there are newer ones
        if checkpoint is None and not is_settled(directory, paths, damaged):
            continue
        if checkpoint is None and (unusable := {**damaged, **stray_checkpoints(directory)}):
            reasons = "; ".join(f"{path}: {reason}" for path, reason in unusable.items())
            raise DamagedCheckpointError(
                f"Every checkpoint in {directory} is damaged or misplaced ({reasons}). "
                f"`muster inspect --repair {directory}` restores what it can. Else put one back from a copy; "
                "to start anew, move these elsewhere or train into another directory."
            )
        if checkpoint is not None:
            for path, exc in damaged.items():
                _log.warning(
                    "Checkpoint %s is damaged and was skipped (%s). Using %s instead.",
                    path,
                    exc,
                    checkpoint.path,
                )
                if set_aside:
                    move_aside(path)
        return checkpoint


def _newest_undamaged(
    paths: list[str], damaged: dict[str, DamagedCheckpointError], tables: bool, mapped: bool
) -> Checkpoint | None:
    for path in reversed(paths):
        try:
            if is_complete(path):
                checkpoint = read_checkpoint(path, tables=tables, mapped=mapped)
                _require_own_name(checkpoint)
                return checkpoint
            if is_lost(path):
                raise DamagedCheckpointError(f"it has no {FILE_NAME}")
        except DamagedCheckpointError as exc:
            damaged[path] = exc
    return None


def _require_own_name(checkpoint: Checkpoint) -> None:
    directory, name = os.path.split(checkpoint.path)
    own = os.path.basename(checkpoint_path(directory, checkpoint.step))
    if name != own:
        raise CheckpointError(
            f"{checkpoint.path} was renamed: it is the checkpoint of step {checkpoint.step}. Rename it to "
            f"{own}, as `muster inspect --repair {directory}` does, or move it elsewhere."
        )


def _read(path: str, manifest: Manifest, *, tables: bool, mapped: bool) -> Checkpoint:
    wanted, left = manifest.variables, set[str]()
    if not tables:
        clocks = {clock_of(name) for name in tables_of(path, manifest)}
        of_tables = {name for name, each in wanted.items() if name in clocks or each.is_keyed}
        left = {piece.key for name in of_tables for piece in wanted[name].pieces}
        left |= {gone_of(piece.keyed) for name in of_tables for piece in wanted[name].pieces}
        wanted = {name: each for name, each in wanted.items() if name not in of_tables}
    stays = {name for name, each in wanted.items() if mapped and may_stay(each)}
    left |= {piece.key for name in stays for piece in wanted[name].pieces}
    with DataFiles(path, manifest.files) as files:
        arrays = files.read(left, once=mapped)
        maps = files.mapped(wanted[name] for name in stays)
    variables = {
        name: map_variable(path, name, record, arrays, maps)
        if name in stays
        else _assemble(path, name, record, arrays)
        for name, record in wanted.items()
    }
    held = [each.file for each in maps.values()]
    saved = tables_of(path, manifest)
    return Checkpoint(path, manifest.step, variables, dict(manifest.metadata), saved, held)


def _assemble(
    path: str, name: str, record: VariableRecord, files: Mapping[str, Mapping[str, np.ndarray[Any, Any]]]
) -> np.ndarray[Any, Any]:
    """Return a variable assembled from its pieces: a view if there is one piece, else a new array."""
    dtype = dtype_named(record.dtype)
    arrays = []
    for piece in pieces_in_order(path, name, record):
        array = joined_piece(piece, files, dtype) if piece.keyed else files[piece.file][piece.key].view(dtype)
        array = array.reshape((piece.stop - piece.start, *record.shape[1:]))
        if (changes := piece.changes) is not None and not piece.keyed:
            numbers = files[changes.file][changes.rows].view(np.int64)
            changed = files[changes.file][changes.key].view(dtype)
            array[numbers] = changed.reshape((len(numbers), *record.shape[1:]))
        arrays.append(array)
    array = arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    return array.reshape(record.shape)
