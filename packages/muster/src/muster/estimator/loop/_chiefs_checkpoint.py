"""Begin on all workers at the chief's checkpoint, also where they do not see its folder."""

import glob
import hashlib
import logging
import os
import shutil
import socket
import tempfile
from contextlib import ExitStack, suppress
from typing import Any

import numpy as np

from muster._errors import CheckpointError
from muster._remote import fetch_all, in_working_copy, remote_url
from muster.checkpoint import Checkpoint
from muster.checkpoint.tensorflow import read_either
from muster.distribute import Strategy

_log = logging.getLogger(__name__)

# How much of a file workers hold in memory when it is sent to them, in bytes.
_CHUNK_BYTES = 1 << 26


def chiefs_checkpoint(
    strategy: Strategy, model_dir: str, checkpoint: Checkpoint | None, resources: ExitStack
) -> Checkpoint | None:
    """Return the chief's checkpoint on every worker; those that do not have it get a copy of its files.

    Workers need no folder that they share: the chief alone writes checkpoints, and its newest one counts. A
    worker whose folder is another one says so.

    Args:
        strategy: The workers, all of which call this.
        model_dir: The folder, on this worker.
        checkpoint: What this worker has found there.
        resources: Deletes the copy when it is closed.

    Raises:
        CheckpointError: The copy cannot be written.
    """
    workers = strategy.workers
    if workers.size == 1:
        return checkpoint
    has_folder = _sees_chiefs_folder(strategy, model_dir)
    found = None if checkpoint is None else [checkpoint.step, _fingerprint(checkpoint.path)]
    # An object store is the same from everywhere; the working copies of it are not.
    folder = os.path.abspath(model_dir)
    shared = in_working_copy(folder)
    place = remote_url(folder) if shared else f"{socket.gethostname()}:{folder}"
    starts = workers.all_gather_object([found, place])
    chiefs, chiefs_place = starts[0]
    if not has_folder and not (shared and place == chiefs_place):
        _log.warning(
            "%s is not the chief's folder, %s: this worker begins %s, and writes no checkpoints.",
            place,
            chiefs_place,
            "anew" if chiefs is None else f"at the chief's checkpoint of step {chiefs[0]}",
        )
    if all(each == chiefs for each, _ in starts):
        return checkpoint
    is_missing = starts[workers.rank][0] != chiefs
    if is_missing and checkpoint is not None:
        checkpoint.close()
    if chiefs is None:
        return None
    copy = _copied(strategy, checkpoint if workers.rank == 0 else None, is_missing, resources)
    return read_either(copy, mapped=True) if is_missing else checkpoint


def _sees_chiefs_folder(strategy: Strategy, model_dir: str) -> bool:
    """Return whether this worker's folder is the chief's: it has a file that the chief makes there."""
    workers, path = strategy.workers, ""
    if workers.rank == 0:
        with suppress(OSError):
            os.makedirs(model_dir, exist_ok=True)
            file, path = tempfile.mkstemp(".tmp", ".chief-", model_dir)
            os.close(file)
    name = workers.all_gather_object(os.path.basename(path))[0]
    sees = workers.rank == 0 or (bool(name) and os.path.exists(os.path.join(model_dir, name)))
    workers.barrier("all workers have looked for the chief's folder")
    if path:
        with suppress(OSError):
            os.unlink(path)
    return sees


def _files_of(path: str) -> list[str]:
    """Return the files of a checkpoint: of a folder, or those of TensorFlow whose names begin alike."""
    fetch_all(path)
    below = os.path.join(glob.escape(path), "*") if os.path.isdir(path) else glob.escape(path) + ".*"
    return sorted(glob.glob(below))


def _fingerprint(path: str) -> str:
    """Return what tells a checkpoint from others: the names of its files, and what describes them."""
    known = hashlib.sha256()
    for file in _files_of(path) if path else ():
        with suppress(OSError):
            known.update(os.path.basename(file).encode())
            if file.endswith((".json", ".index")):
                with open(file, "rb") as opened:
                    known.update(opened.read())
    return known.hexdigest()


def _copied(strategy: Strategy, checkpoint: Checkpoint | None, is_missing: bool, resources: ExitStack) -> str:
    """Send the files of the chief's checkpoint to all workers; return its path, or that of the copy.

    Args:
        strategy: The workers.
        checkpoint: The chief's, there.
        is_missing: Whether this worker needs a copy.
        resources: Deletes the copy when it is closed.
    """
    listed: Any = None
    if checkpoint is not None:
        path = checkpoint.path
        files = [[os.path.basename(file), os.path.getsize(file)] for file in _files_of(path)]
        listed = [*os.path.split(path), os.path.isdir(path), files]
    parent, base, is_folder, files = strategy.workers.all_gather_object(listed)[0]
    target = parent
    if is_missing:
        target = tempfile.mkdtemp(prefix="muster-checkpoint-")
        resources.callback(shutil.rmtree, target, ignore_errors=True)
    folder = [base] if is_folder else []
    if is_missing and is_folder:
        os.mkdir(os.path.join(target, base))
    for name, size in files:
        source, copy = os.path.join(parent, *folder, name), os.path.join(target, *folder, name)
        try:
            _send(strategy, source, copy if is_missing else None, size)
        except OSError as exc:
            raise CheckpointError(
                f"The chief's checkpoint cannot be sent to all workers: {copy if is_missing else source}: "
                f"{exc.strerror}. It has {size} bytes. Free room there, or give all workers a model_dir on "
                "storage that they share."
            ) from exc
    copied: str = os.path.join(target, base)
    return copied


def _send(strategy: Strategy, source: str, target: str | None, size: int) -> None:
    """Send a file of the chief's to all workers, which write it to a path unless that is None."""
    workers = strategy.workers
    with ExitStack() as stack:
        read = stack.enter_context(open(source, "rb")) if workers.rank == 0 else None
        write = None if target is None else stack.enter_context(open(target, "wb"))
        for start in range(0, size, _CHUNK_BYTES):
            count = min(_CHUNK_BYTES, size - start)
            chunk = np.zeros(count, np.uint8) if read is None else np.frombuffer(read.read(count), np.uint8)
            (chunk,) = workers.broadcast([chunk])
            if write is not None:
                write.write(chunk.tobytes())
