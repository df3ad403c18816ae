"""``tf.train.get_checkpoint_state`` and ``checkpoints_iterator``, for muster's checkpoints and TensorFlow's.

Source: tensorflow/python/checkpoint/checkpoint_management.py, tensorflow/python/training/checkpoint_utils.py.
"""

import logging
import os
import time
from collections.abc import Callable, Iterator

from muster.checkpoint import list_checkpoints
from muster.checkpoint.tensorflow import CheckpointState, newest_checkpoint, prefixes

_log = logging.getLogger(__name__)

_LOOK_SECS = 1.0


def get_checkpoint_state(
    checkpoint_dir: str | os.PathLike[str], latest_filename: str | None = None
) -> CheckpointState | None:
    """Return which checkpoints a directory has, muster's if there are both; None if it has none.

    Args:
        checkpoint_dir: The directory.
        latest_filename: The file in which TensorFlow names its own; None for ``checkpoint``.

    Raises:
        CheckpointError: The directory cannot be listed, or that file cannot be read.
    """
    found = list_checkpoints(checkpoint_dir)
    if not found:
        return prefixes(checkpoint_dir, latest_filename)
    return CheckpointState(
        model_checkpoint_path=found[-1].path,
        all_model_checkpoint_paths=tuple(each.path for each in found),
        all_model_checkpoint_timestamps=tuple(each.time for each in found),
    )


def checkpoints_iterator(
    checkpoint_dir: str | os.PathLike[str],
    min_interval_secs: float = 0,
    timeout: float | None = None,
    timeout_fn: Callable[[], object] | None = None,
) -> Iterator[str]:
    """Yield the path of each new checkpoint of a directory, the newest one when it looks.

    Args:
        checkpoint_dir: The directory, which need not exist yet.
        min_interval_secs: The least time in seconds between two of them.
        timeout: How long to wait for a new one, in seconds; None waits for ever.
        timeout_fn: Called after that time; the iteration ends if it returns true. None ends it.

    Raises:
        CheckpointError: The directory cannot be listed.
    """
    last: str | None = None
    while True:
        new = _wait_for_another(checkpoint_dir, last, timeout)
        if new is not None:
            began, last = time.monotonic(), new
            yield new
            time.sleep(max(0.0, began + min_interval_secs - time.monotonic()))
        elif timeout_fn is None:
            _log.info("Timed-out waiting for a checkpoint.")
            return
        elif timeout_fn():
            return


def _wait_for_another(
    checkpoint_dir: str | os.PathLike[str], last: str | None, timeout: float | None
) -> str | None:
    deadline = None if timeout is None else time.monotonic() + timeout
    _log.info("Waiting for new checkpoint at %s", os.fspath(checkpoint_dir))
    while (new := newest_checkpoint(checkpoint_dir)) is None or new == last:
        left = _LOOK_SECS if deadline is None else deadline - time.monotonic()
        if left <= 0:
            return None
        time.sleep(min(_LOOK_SECS, left))
    _log.info("Found new checkpoint at %s", new)
    return new
