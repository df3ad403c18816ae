"""Choosing the checkpoints to delete from those on the disk, so that the choice survives a restart."""

import math
from collections.abc import Sequence

from muster.checkpoint._layout import CheckpointInfo


def check_retention(max_to_keep: int | None, keep_every_n_hours: float) -> None:
    """Raise ValueError if these are no arguments for :func:`retain`."""
    if max_to_keep is not None and max_to_keep < 0:
        raise ValueError(f"max_to_keep is {max_to_keep}; give a number >= 0, or None to keep all.")
    if not keep_every_n_hours > 0:
        raise ValueError(f"keep_every_n_hours is {keep_every_n_hours}; give a number of hours > 0.")


def retain(
    infos: Sequence[CheckpointInfo],
    *,
    max_to_keep: int | None,
    keep_every_n_hours: float,
    current: int | None = None,
) -> list[CheckpointInfo]:
    """Choose the checkpoints to delete.

    The newest ``max_to_keep`` stay. Of the older ones, one stays for every ``keep_every_n_hours``: periods of
    that length begin when the directory's first checkpoint is written, and the first checkpoint of each
    period stays, except in the first period.

    Source: tensorflow/python/training/saver.py, ``Saver._MaybeDeleteOldCheckpoints``. Departs in
    that it looks at what is on the disk and not at what this process wrote: a lowered
    ``max_to_keep`` catches up, and periods go on over a restart.

    Args:
        infos: The checkpoints of one directory that may be deleted, in any order.
        max_to_keep: The number of newest checkpoints to keep; 0 or None keeps all.
        keep_every_n_hours: The length of a period, in hours.
        current: The step that was written last. It is kept even if there are higher ones, as after a fall
            back to an older checkpoint.

    Returns:
        The checkpoints to delete, in ascending order of step; never the newest.

    Raises:
        ValueError: An argument is out of range.
    """
    check_retention(max_to_keep, keep_every_n_hours)
    if not max_to_keep or not infos:
        return []
    periods_kept = {0, -1}  # a checkpoint written at the very start, and the first period
    doomed = []
    for info in sorted(infos, key=lambda info: info.step)[:-max_to_keep]:
        period = math.ceil((info.time - info.started) / (keep_every_n_hours * 3600)) - 1
        if info.step == current:
            continue
        if period in periods_kept:
            doomed.append(info)
        periods_kept.add(period)
    return doomed
