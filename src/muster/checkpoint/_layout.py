"""Where checkpoints lie in a directory, and which there are."""

import os
import re
import shutil
from collections.abc import Collection
from dataclasses import dataclass

from muster._errors import CheckpointError, CheckpointNotFoundError
from muster.checkpoint._manifest import FILE_NAME, read_manifest

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


def is_settled(directory: str, paths: list[str], seen: Collection[str] = ()) -> bool:
    """Says whether a directory has no checkpoint of which a reader that found none has missed the writing.

    The one that is written last may have become whole after the reader looked at it, and the one before it
    may be half deleted. Whole ones are asked for before the directory is listed again: what became whole and
    was deleted in between was so for the sake of one that was not listed.

    Args:
        directory: where the checkpoints lie.
        paths: what `scan` found before the reader looked for whole ones among them.
        seen: whole ones that the reader has seen.
    """
    return not any(is_whole(path) for path in paths if path not in seen) and scan(directory) == paths


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
