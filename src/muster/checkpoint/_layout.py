"""Where checkpoints lie in a directory, and which there are."""

import os
import re
import shutil
from dataclasses import dataclass

from .._errors import CheckpointError, CheckpointNotFoundError
from ._manifest import FILE_NAME, read_manifest

_NAME = re.compile(r"ckpt-(0|[1-9][0-9]*)")


@dataclass(frozen=True)
class CheckpointInfo:
    """A checkpoint in a listing.

    Attributes:
        path: Its directory.
        step: The global step.
        time: When it was written, in seconds since the epoch.
        started: When the first checkpoint of the directory was written.
    """

    path: str
    step: int
    time: float
    started: float


def checkpoint_path(directory: str, step: int) -> str:
    """The directory of the checkpoint of a step."""
    return os.path.join(directory, f"ckpt-{step}")


def is_whole(path: str) -> bool:
    """Says whether a checkpoint's directory has a manifest: without it, it is not there for a reader."""
    return os.path.exists(os.path.join(path, FILE_NAME))


def scan(directory: str) -> list[str]:
    """Returns the checkpoints' directories in ascending order of step, whole or not.

    Raises:
        CheckpointError: The directory exists and cannot be listed.
    """
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    except OSError as exc:
        raise CheckpointError(f"The directory {directory} cannot be listed: {exc}.") from exc
    steps = sorted(int(match[1]) for match in map(_NAME.fullmatch, names) if match)
    return [checkpoint_path(directory, step) for step in steps]


def list_checkpoints(directory: str | os.PathLike[str]) -> list[CheckpointInfo]:
    """Lists the checkpoints in a directory in ascending order of step.

    A checkpoint that is still being written, or was left half written, is not there. One whose bytes
    have changed since is: only reading it tells. If the manifest itself cannot be understood, its
    file's time stands for the times in it.

    Raises:
        CheckpointError: The directory exists and cannot be listed.
    """
    infos = []
    for path in filter(is_whole, scan(os.fspath(directory))):
        step = int(path.rpartition("-")[2])
        try:
            manifest = read_manifest(path)
            infos.append(CheckpointInfo(path, step, manifest.time, manifest.started))
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
    """Returns the path of the checkpoint with the highest step, or None; its bytes are not read.

    Source: tensorflow/python/checkpoint/checkpoint_management.py, ``latest_checkpoint``. Departs in
    that the newest is found by looking, not in a state file.

    Raises:
        CheckpointError: The directory exists and cannot be listed.
    """
    directory = os.fspath(directory)
    while True:
        paths = scan(directory)
        newest = next(filter(is_whole, reversed(paths)), None)
        if newest is not None or is_settled(directory, paths):
            return newest


def is_settled(directory: str, paths: list[str]) -> bool:
    """Says whether a directory still has what `scan` found: else all of that may have been replaced."""
    return scan(directory) == paths


def delete_checkpoint(path: str) -> None:
    """Deletes a checkpoint, its manifest first: from then on it is absent for readers.

    Raises:
        OSError: It cannot be deleted.
    """
    try:
        os.unlink(os.path.join(path, FILE_NAME))
    except FileNotFoundError:
        pass  # half written, or half deleted
    shutil.rmtree(path)
