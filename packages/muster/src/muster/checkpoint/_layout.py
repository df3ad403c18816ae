"""The names of checkpoints in a directory, and finding them."""

import itertools
import logging
import os
import re
import shutil
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass

from muster._errors import CheckpointError, CheckpointNotFoundError
from muster._paths import local_path
from muster._remote import fetch_all, publish, refresh
from muster.checkpoint._manifest import FILE_NAME, UNFINISHED, read_manifest

_log = logging.getLogger(__name__)

BASENAME = "ckpt"
_NAME = re.compile(rf"{BASENAME}-(0|[1-9][0-9]*)")
_DATA = re.compile(r"variables-[0-9a-f]{8}(?:-([a-z]+-[0-9]+))?\.safetensors")


@dataclass(frozen=True)
class CheckpointInfo:
    """A checkpoint in a listing.

    Attributes:
        path: Its directory.
        step: The global step.
        time: When it was written, in seconds since the epoch.
        started: When the first checkpoint of the directory was written, in seconds since the epoch.
        keep_every_n_hours: Runs with this retention may delete it; None: no run may.
    """

    path: str
    step: int
    time: float
    started: float
    keep_every_n_hours: float | None = None


def checkpoint_path(directory: str, step: int) -> str:
    """Return the directory of a step's checkpoint."""
    return os.path.join(directory, f"{BASENAME}-{step}")


def data_name(save: str, writer: str = "") -> str:
    """Return the name of a data file.

    Args:
        save: Eight random hexadecimal digits, the same for all files of a checkpoint.
        writer: Which process writes it, such as ``"ps-0"``; empty for the one that commits the checkpoint.
    """
    return f"variables-{save}{writer and '-'}{writer}.safetensors"


def is_data_name(name: str) -> bool:
    """Return whether a name is one of a data file."""
    return _DATA.fullmatch(name) is not None


def writer_of(name: str) -> str:
    """Return which process wrote a data file; empty for the one that committed the checkpoint."""
    match = _DATA.fullmatch(name)
    return (match and match[1]) or ""


def is_named(path: str) -> bool:
    """Return whether a path ends like that of a checkpoint."""
    return _NAME.fullmatch(os.path.basename(path)) is not None


def is_complete(path: str) -> bool:
    """Return whether a checkpoint's directory has a manifest. Readers ignore a directory without one."""
    return os.path.isfile(os.path.join(path, FILE_NAME))


def is_unfinished(path: str) -> bool:
    """Return whether a process is writing or deleting a checkpoint's directory, or was killed over it."""
    files = _files(path)
    return not files.get(FILE_NAME) and (UNFINISHED in files or not files)


def is_lost(path: str) -> bool:
    """Return whether a checkpoint's directory has lost its manifest."""
    files = _files(path)
    return bool(files) and not files.get(FILE_NAME) and UNFINISHED not in files


def stray_checkpoints(directory: str) -> dict[str, str]:
    """Return directories that hold checkpoints which no reader takes, and what is wrong with each.

    They are subdirectories, or the directory itself. Those that are being written are left out.

    Raises:
        CheckpointError: One cannot be listed.
    """
    wrong = {path: f"it has no {FILE_NAME}" for path in scan(directory) if is_lost(path)}
    if holds_data(directory):
        wrong[directory] = "it is a checkpoint itself, and not the directory of one"
    for name in sorted(_files(directory)):
        path = os.path.join(directory, name)
        if not is_named(name) and holds_data(path):
            wrong[path] = f"it is not called {BASENAME}-<step>"
    return wrong


def holds_data(path: str) -> bool:
    """Return whether a directory holds a data file of a checkpoint."""
    return any(map(is_data_name, _files(path)))


def _files(path: str) -> dict[str, bool]:
    """Return the names in a directory, and whether each is a regular file; none if it is no directory.

    Raises:
        CheckpointError: It cannot be listed.
    """
    try:
        with os.scandir(path) as entries:
            return {entry.name: entry.is_file() for entry in entries}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as exc:
        raise CheckpointError(f"The directory {path} cannot be listed: {exc}.") from exc


def scan(directory: str) -> list[str]:
    """Return the checkpoints' directories in ascending order of step, including incomplete ones.

    Raises:
        CheckpointError: The directory exists and cannot be listed.
    """
    try:
        refresh(directory)
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise CheckpointError(f"The directory {directory} cannot be listed: {exc}.") from exc
    steps = sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)
    return [checkpoint_path(directory, step) for step in steps]


def list_checkpoints(directory: str | os.PathLike[str]) -> list[CheckpointInfo]:
    """List the checkpoints in a directory in ascending order of step.

    Incomplete checkpoints are left out: those that are being written, or whose writer was killed. Damaged
    ones are listed, because only reading them tells. If the manifest itself is damaged, the time of its file
    replaces the times in it.

    Raises:
        CheckpointError: The directory exists and cannot be listed.

    Example:
        ```python
        for step in (10, 20):
            muster.checkpoint.write_checkpoint("runs/listed", step, {"w": np.ones(3)}, {})
        assert [each.step for each in muster.checkpoint.list_checkpoints("runs/listed")] == [10, 20]
        ```
    """
    infos = []
    for path in filter(is_complete, scan(local_path(directory, remote=True))):
        step = int(path.rpartition("-")[2])
        try:
            manifest = read_manifest(path)
            infos.append(
                CheckpointInfo(path, step, manifest.time, manifest.started, manifest.keep_every_n_hours)
            )
        except CheckpointNotFoundError:
            continue  # deleted since the scan
        except CheckpointError:
            try:
                modified = os.path.getmtime(os.path.join(path, FILE_NAME))
            except FileNotFoundError:
                continue
            infos.append(CheckpointInfo(path, step, modified, modified))
    return infos


def latest_checkpoint(directory: str | os.PathLike[str]) -> str | None:
    """Return the path of the checkpoint with the highest step, or None. Its bytes are not read.

    Source: tensorflow/python/checkpoint/checkpoint_management.py, ``latest_checkpoint``. Departs in
    that the newest is found by looking, not in a state file.

    Raises:
        CheckpointError: The directory exists and cannot be listed.

    Example:
        ```python
        muster.checkpoint.write_checkpoint("runs/newest", 10, {"w": np.ones(3)}, {})
        assert muster.checkpoint.latest_checkpoint("runs/newest") == "runs/newest/ckpt-10"
        assert muster.checkpoint.latest_checkpoint("runs/none") is None
        ```
    """
    directory = local_path(directory, remote=True)
    while True:
        paths = scan(directory)
        newest = next(filter(is_complete, reversed(paths)), None)
        if newest is not None or is_settled(directory, paths):
            return newest


def is_settled(directory: str, paths: list[str], seen: Collection[str] = ()) -> bool:
    """Return whether a reader has seen every complete checkpoint; if not, it must look again.

    Between the listing and the look at its last entry, a writer may have completed that checkpoint and half
    deleted the one before it. Complete checkpoints are looked for before the directory is listed again: one
    that was completed and deleted in between had to make room for one that was not listed before.

    Args:
        directory: The directory of the checkpoints.
        paths: The directories that the reader looked at, as `scan` listed them.
        seen: Those of them that it found complete.
    """
    return not any(is_complete(path) for path in paths if path not in seen) and scan(directory) == paths


def delete_checkpoint(path: str | os.PathLike[str]) -> None:
    """Delete a checkpoint. From the start readers ignore it, and to the end it is marked as unfinished.

    Raises:
        OSError: The checkpoint cannot be deleted.
        PathError: It has a scheme that muster has no file system for.
    """
    path = local_path(path, remote=True)
    with suppress(FileNotFoundError):  # half written, or half deleted
        os.replace(os.path.join(path, FILE_NAME), os.path.join(path, UNFINISHED))
    for entry in list(os.scandir(path)):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry)
        elif entry.name != UNFINISHED:
            os.unlink(entry)
    shutil.rmtree(path)
    publish(path, whole=True)


def delete_old_checkpoint(path: str | os.PathLike[str]) -> None:
    """Delete a checkpoint in whose place a new one was saved. If it cannot be, training goes on: it warns."""
    try:
        with suppress(FileNotFoundError):  # somebody else did
            delete_checkpoint(path)
    except OSError as exc:
        _log.warning("The old checkpoint %s cannot be deleted: %s.", path, exc)


def replace_folder(path: str, new: str, aside: str) -> None:
    """Put a folder in the place of another one, if there is one, and move that aside.

    If this fails or is interrupted, the other one is in its place again. A file is not replaced.

    Args:
        path: The place.
        new: The folder to put there, in the same file system.
        aside: Where to move the other one, a path in the same file system at which there is nothing.
    """
    try:
        if os.path.isdir(path):
            os.rename(path, aside)
        os.rename(new, path)
    except BaseException:
        if os.path.lexists(aside) and not os.path.lexists(path):
            os.rename(aside, path)
        raise


def move_aside(path: str) -> str:
    """Rename a checkpoint so that no reader takes it, to a name that is free, and return that."""
    names = itertools.chain([f"{path}.damaged"], (f"{path}.damaged-{n}" for n in itertools.count(2)))
    aside = next(name for name in names if not os.path.lexists(name))
    with suppress(FileNotFoundError):  # somebody has deleted it meanwhile
        fetch_all(path)
        os.rename(path, aside)
        publish(aside)
        publish(path, whole=True)
    return aside
