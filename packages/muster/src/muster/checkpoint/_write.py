"""Writing a checkpoint, data first, manifest last, and changing its metadata.

A failed write leaves nothing behind.
"""

import json
import logging
import os
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from muster._arrays import LazyArray
from muster._errors import CheckpointError
from muster._paths import local_path
from muster._remote import publish, remote_url
from muster.checkpoint._arrays import FileRecord, is_numeric, open_regular, write_arrays
from muster.checkpoint._layout import (
    checkpoint_path,
    data_name,
    delete_checkpoint,
    is_complete,
    is_lost,
    move_aside,
    scan,
)
from muster.checkpoint._manifest import (
    FILE_NAME,
    UNFINISHED,
    Manifest,
    Piece,
    VariableRecord,
    encode,
    read_manifest,
    sync_directory,
    write_manifest,
)
from muster.checkpoint._parts import BegunParts, Parts, begin_parts, finish_parts

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CheckpointContents:
    """The contents of a checkpoint after all checks: only the disk can still make the write fail.

    Attributes:
        step: The global step.
        variables: The arrays that this process writes, by name.
        metadata: Entries that are stored as JSON.
        parts: What other processes write; None for nothing.
        names: The order of all variables in the manifest; None for that of the parts, then of this process.
    """

    step: int
    variables: Mapping[str, np.ndarray[Any, Any] | LazyArray]
    metadata: Mapping[str, Any]
    parts: BegunParts | None = None
    names: Sequence[str] | None = None


def take_snapshot(
    step: int,
    variables: Mapping[str, np.ndarray[Any, Any] | LazyArray],
    metadata: Mapping[str, Any],
    names: Sequence[str] | None = None,
) -> CheckpointContents:
    """Check the contents of a checkpoint, and copy the metadata, but not the arrays.

    Raises:
        ValueError: The step or a name cannot be stored.
        TypeError: An array is not numeric, or the metadata is not JSON.
    """
    if isinstance(step, bool) or not isinstance(step, int | np.integer) or step < 0:
        raise ValueError(f"The step of a checkpoint must be an integer >= 0, not {step!r}.")
    arrays: dict[str, np.ndarray[Any, Any] | LazyArray] = {}
    for name, value in variables.items():
        _check_name(name)
        arrays[name] = value if isinstance(value, LazyArray) else np.asarray(value)
        if not is_numeric(arrays[name].dtype):
            raise TypeError(
                f"Variable {name!r} has dtype {arrays[name].dtype}; a checkpoint holds numbers and booleans."
            )
    try:
        copied = json.loads(json.dumps(dict(metadata)))
    except (TypeError, ValueError) as exc:
        raise TypeError(f"The metadata of a checkpoint must be JSON: {exc}.") from exc
    return CheckpointContents(int(step), arrays, copied, names=names)


def snapshot_with_parts(directory: str, snapshot: CheckpointContents, parts: Parts) -> CheckpointContents:
    """Add what other processes hold to a snapshot: they begin to write it, if they see the directory; else
    it is read from them.

    Args:
        directory: The directory of the checkpoints.
        snapshot: What this process writes.
        parts: What others hold.

    Raises:
        ValueError: A name cannot be stored.
        CheckpointError: The checkpoint's directory cannot be made; nothing of it is left.
    """
    for name in parts.records(parts.writers):
        _check_name(name)
    path = checkpoint_path(directory, snapshot.step)
    try:
        with ExitStack() as undo:
            _open_folder(path, undo)
            if (begun := begin_parts(path, parts)) is not None:
                undo.pop_all()  # what writes the snapshot goes on in the folder
    except OSError as exc:
        raise CheckpointError(_explain(path, snapshot, exc)) from exc
    if begun is None:
        return replace(snapshot, variables={**parts.read(), **snapshot.variables})
    return replace(snapshot, parts=begun)


def write_checkpoint(
    directory: str | os.PathLike[str],
    step: int,
    variables: Mapping[str, np.ndarray[Any, Any] | LazyArray],
    metadata: Mapping[str, Any],
    *,
    now: float | None = None,
) -> str:
    """Write a checkpoint, and wait until it is on the disk.

    A reader finds the complete checkpoint or none. If the step has one already, the new data is written
    beside the old, and replacing the manifest switches from one to the other atomically.

    Args:
        directory: The directory of the checkpoints; made if it is missing.
        step: The global step, >= 0.
        variables: Arrays of any numeric dtype by name, of the global shape (not per replica). Those that lie
            in other files are copied in pieces.
        metadata: Entries that can be stored as JSON; tuples come back as lists.
        now: The time to record, in seconds since the epoch; None takes the clock's.

    Returns:
        The path of the checkpoint.

    Raises:
        ValueError: The step or a name cannot be stored.
        TypeError: An array is not numeric, or the metadata is not JSON.
        CheckpointError: It cannot be written; nothing of it is left, and other checkpoints are untouched.

    Example:
        ```python
        path = muster.checkpoint.write_checkpoint("runs/written", 5, {"dense/kernel": np.ones((4, 2))}, {})
        assert muster.checkpoint.read_checkpoint(path).variables["dense/kernel"].sum() == 8
        ```
    """
    snapshot = take_snapshot(step, variables, metadata)
    return write_snapshot(local_path(directory, remote=True), snapshot, time.time() if now is None else now)


def write_snapshot(
    directory: str,
    snapshot: CheckpointContents,
    now: float,
    started: float | None = None,
    keep_every_n_hours: float | None = None,
) -> str:
    """Write a snapshot as :func:`write_checkpoint` does.

    Args:
        directory: The directory of the checkpoints.
        snapshot: The contents.
        now: The time to record, in seconds since the epoch.
        started: When the directory's first checkpoint was written; None looks into the newest.
        keep_every_n_hours: The retention of runs that may delete it; None for no run.
    """
    path = checkpoint_path(directory, snapshot.step)
    # A name of its own: a reader that still has the old manifest never opens the new data.
    own_name = data_name(secrets.token_hex(4))
    parts = snapshot.parts
    try:
        with ExitStack() as undo:
            _open_folder(path, undo, own_name, *([] if parts is None else (parts.token, *parts.files)))
            records = {name: _record(array, own_name, name) for name, array in snapshot.variables.items()}
            files: dict[str, FileRecord] = {}
            if parts is not None:
                of_parts, files = finish_parts(parts)
                records = {**of_parts, **records}
            if snapshot.names is not None:
                records = {name: records[name] for name in snapshot.names}
            manifest = Manifest(
                step=snapshot.step,
                time=now,
                started=first_written(directory, now) if started is None else started,
                variables=records,
                files=files,
                metadata=snapshot.metadata,
                keep_every_n_hours=keep_every_n_hours,
            )
            # The data file says what the checkpoint holds, in case that the manifest is lost.
            record = write_arrays(os.path.join(path, own_name), snapshot.variables, encode(manifest).decode())
            write_manifest(path, replace(manifest, files={**files, own_name: record}))
            undo.pop_all()  # the checkpoint exists now, whatever happens
        sync_directory(path)
        sync_directory(directory)
        # What an earlier checkpoint of this step left, or a process that was killed over it.
        litter = set(os.listdir(path)) - {FILE_NAME, own_name, *files}
        _remove_files(*(os.path.join(path, name) for name in litter))
        publish(path, whole=True)
    except OSError as exc:
        raise CheckpointError(_explain(path, snapshot, exc)) from exc
    return path


def amend_metadata(path: str | os.PathLike[str], changes: Mapping[str, Any]) -> None:
    """Set entries of a checkpoint's metadata. A reader sees all of the changes or none.

    Args:
        path: The checkpoint's directory.
        changes: New values by key; other entries stay.

    Raises:
        CheckpointNotFoundError: There is no checkpoint at this path.
        DamagedCheckpointError: The manifest's bytes have changed since they were written.
        CheckpointError: The manifest cannot be written; it stays as it was.
        TypeError: The changes are not JSON.
    """
    path = local_path(path, remote=True)
    manifest = read_manifest(path)
    try:
        write_manifest(path, replace(manifest, metadata={**manifest.metadata, **changes}))
        sync_directory(path)
        publish(path)
    except OSError as exc:
        raise CheckpointError(
            f"The manifest of {remote_url(path)} cannot be written: {exc.strerror or exc}."
        ) from exc


def _open_folder(path: str, undo: ExitStack, *names: str) -> None:
    """Make a checkpoint's directory, unless it is there, and mark it as unfinished, unless it is complete.

    Args:
        path: The directory.
        undo: Is given what deletes the directory, or files in it if the step has another checkpoint there.
        names: Those files.

    Raises:
        OSError: It cannot be made.
    """
    if is_lost(path):
        _log.warning("%s has no %s: it is renamed to %s.", path, FILE_NAME, move_aside(path))
    os.makedirs(path, exist_ok=True)
    if is_complete(path):
        undo.callback(_remove_files, *(os.path.join(path, name) for name in names))
    else:
        undo.callback(_abandon, path)
        open(os.path.join(path, UNFINISHED), "wb", opener=open_regular).close()


def _check_name(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError as exc:
        raise ValueError(f"The name of a variable must be Unicode text, not {name!r}.") from exc
    if name == "__metadata__":
        raise ValueError("A variable cannot be called '__metadata__': the safetensors format reserves it.")


def _record(array: np.ndarray[Any, Any] | LazyArray, file: str, key: str) -> VariableRecord:
    rows = array.shape[0] if array.ndim else 1
    return VariableRecord(array.shape, array.dtype.name, (Piece(file, key, 0, rows),))


def first_written(directory: str, now: float) -> float:
    """Return when the directory's first checkpoint was written, as the newest readable manifest has it."""
    for path in filter(is_complete, reversed(scan(directory))):
        try:
            return min(now, read_manifest(path).started)
        except CheckpointError:
            continue
    return now


def _abandon(path: str) -> None:
    """Delete what was written of a checkpoint; what cannot be deleted is marked as unfinished."""
    with suppress(OSError):
        delete_checkpoint(path)


def _remove_files(*paths: str) -> None:
    """Remove those of these files that exist; one that cannot be removed is only litter."""
    for path in paths:
        try:
            os.unlink(path)
        except OSError:
            continue


def _explain(path: str, snapshot: CheckpointContents, exc: OSError) -> str:
    if (url := remote_url(path)) != path:
        return (
            f"The checkpoint {url} was not written: {exc.strerror or exc}. Earlier checkpoints are untouched."
        )
    needed = sum(array.nbytes for array in snapshot.variables.values())
    if snapshot.parts is not None:
        needed += sum(record.nbytes for record in snapshot.parts.records.values())
    try:
        free = f"{shutil.disk_usage(os.path.dirname(path) or '.').free} bytes are free"
    except OSError:
        free = "how much is free there is unknown"
    return (
        f"The checkpoint {path} was not written: {exc.strerror or exc}. "
        f"It needs {needed} bytes, and {free}. Earlier checkpoints are untouched."
    )
