"""Checkpoints with names that the program chooses, and ``tf.train.latest_checkpoint``."""

import contextlib
import os
import re
from collections.abc import Iterator

from muster import CheckpointError
from muster.checkpoint import is_complete
from muster.checkpoint.tensorflow import newest_checkpoint
from muster.extend import local_path

_WEIGHTS = ".weights.h5"


def numbered(directory: str | os.PathLike[str], name: str) -> list[str]:
    """Return the paths of the checkpoints ``<name>-<number>`` of a directory, by their numbers.

    Raises:
        CheckpointError: The directory exists and cannot be listed.
    """
    found = []
    for entry in _entries(directory):
        match = re.fullmatch(rf"{re.escape(name)}-(\d+)", entry.name)
        if match and is_complete(entry.path):
            found.append((int(match[1]), entry.path))
    return [path for _, path in sorted(found)]


def latest_checkpoint(
    checkpoint_dir: str | bytes | os.PathLike[str], latest_filename: str | None = None
) -> str | None:
    """Return the newest checkpoint of a directory, or None.

    Checkpoints ``ckpt-<step>`` come first, then TensorFlow's, then those of other names and weights of
    Keras, whose ending ``.weights.h5`` is left out.

    Args:
        checkpoint_dir: The directory.
        latest_filename: The file in which TensorFlow names its newest; None for ``checkpoint``.

    Raises:
        CheckpointError: The directory cannot be listed, or that file cannot be read.

    Source: tensorflow/python/checkpoint/checkpoint_management.py, ``latest_checkpoint``.
    """
    newest = newest_checkpoint(checkpoint_dir, latest_filename)
    if newest is not None:
        return newest
    found = []
    for entry in _entries(checkpoint_dir):
        number = re.search(r"\d+(?=\D*$)", entry.name.removesuffix(_WEIGHTS))
        is_weights = entry.name.endswith(_WEIGHTS) and entry.is_file()
        if is_weights or re.search(r"-\d+$", entry.name) and is_complete(entry.path):
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile, by the program that trains
                when = entry.stat().st_mtime_ns
                found.append((when, int(number[0]) if number else 0, entry.path.removesuffix(_WEIGHTS)))
    return max(found)[2] if found else None


def checkpoint_exists(checkpoint_prefix: str | os.PathLike[str]) -> bool:
    """Return whether `latest_checkpoint` may have returned a path: a checkpoint or weights are there.

    Source: tensorflow/python/checkpoint/checkpoint_management.py, ``checkpoint_exists``.
    """
    path = local_path(checkpoint_prefix)
    return any(os.path.exists(path + ending) for ending in ("", ".index", _WEIGHTS))


def _entries(directory: str | bytes | os.PathLike[str]) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(local_path(directory)) as entries:
            yield from entries
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as exc:
        raise CheckpointError(f"The directory {local_path(directory)} cannot be listed: {exc}.") from exc
