"""Saving checkpoints in the background, and deleting old ones."""

import logging
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import numpy as np

from muster._arrays import LazyArray
from muster._errors import CheckpointError
from muster._paths import local_path
from muster._remote import remote_url
from muster.checkpoint._layout import (
    CheckpointInfo,
    checkpoint_path,
    delete_old_checkpoint,
    is_unfinished,
    list_checkpoints,
    scan,
)
from muster.checkpoint._lease import Lease
from muster.checkpoint._parts import Parts
from muster.checkpoint._write import (
    CheckpointContents,
    first_written,
    snapshot_with_parts,
    take_snapshot,
    write_snapshot,
)

_log = logging.getLogger(__name__)


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


class Checkpointer:
    """Saves checkpoints into a directory, in the background. A directory has one writer, until its `close`.

    ``save`` returns at once, and a thread writes. At most one save is under way, so that memory holds no more
    than one copy of the arrays. An error in the background is raised by the next call of ``save``, ``wait``
    or ``close``. A process that ends normally finishes the save under way.

    It deletes what runs with the same ``keep_every_n_hours`` saved, and never what was kept otherwise: by a
    run that keeps all, or by `write_checkpoint`.

    Attributes:
        on_saved: Called with the step of each checkpoint that is complete, on the thread that writes; None
            for nothing.

    Source: tensorflow/python/training/saver.py, ``Saver``, and what ``recover_last_checkpoints`` gives it.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        max_to_keep: int | None = 5,
        keep_every_n_hours: float = 10000.0,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make the directory if it is missing, and try to write in it.

        Args:
            directory: The directory of the checkpoints.
            max_to_keep: As for `retain`.
            keep_every_n_hours: As for `retain`.
            clock: Returns the time in seconds since the epoch.
            timer: Returns the time in seconds of a clock that nobody sets: periods are measured by it.

        Raises:
            ValueError: An argument is out of range.
            DirectoryInUseError: Another process writes into the directory, or another Checkpointer.
            PathError: The directory is a URL that is no local path.
            CheckpointError: The directory cannot be made or written.
        """
        self.retain(max_to_keep, keep_every_n_hours)
        self._directory = local_path(directory, remote=True)
        self._clock = clock
        self._timer = timer
        self._first: float | None = None
        try:
            os.makedirs(self._directory, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._directory):
                pass
            self._lease = Lease(self._directory)
        except OSError as exc:
            raise CheckpointError(
                f"Checkpoints cannot be written to {remote_url(self._directory)}: {exc.strerror}. "
                "Choose a directory that can be written."
            ) from exc
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="muster-checkpoint")
        self._pending: Future[None] | None = None
        self.on_saved: Callable[[int], None] | None = None
        self._swept = False
        self._closed = False

    def retain(self, max_to_keep: int | None, keep_every_n_hours: float) -> None:
        """Choose how many checkpoints to keep, from the next save on.

        Args:
            max_to_keep: The number of newest checkpoints to keep; 0 or None keeps all.
            keep_every_n_hours: The length of a period, in hours. Of the older checkpoints, the first of each
                period is kept, too.

        Raises:
            ValueError: An argument is out of range.
        """
        check_retention(max_to_keep, keep_every_n_hours)
        self._max_to_keep = max_to_keep
        self._keep_every_n_hours = min(keep_every_n_hours, sys.float_info.max)  # JSON has no infinity

    @property
    def directory(self) -> str:
        """The directory of the checkpoints."""
        return self._directory

    def save(
        self,
        step: int,
        variables: Mapping[str, np.ndarray[Any, Any] | LazyArray],
        metadata: Mapping[str, Any],
        *,
        parts: Parts | None = None,
        names: Sequence[str] | None = None,
        wait: bool = False,
    ) -> str:
        """Start to write a checkpoint, after waiting for the save under way.

        Args:
            step: The global step, >= 0.
            variables: Arrays of any shape and numeric dtype by name. They are not copied: they must
                not change until the save is done.
            metadata: Entries that can be stored as JSON. They are copied.
            parts: Further variables, whose values other processes hold. Those have begun to write when this
                returns, or have sent their values if they do not see the directory.
            names: The order of all variables in the manifest; None for that of the parts, then of the others.
            wait: Whether to wait until the checkpoint is on the disk.

        Returns:
            The path of the checkpoint.

        Raises:
            ValueError: The step or a name cannot be stored.
            TypeError: An array is not numeric, or the metadata is not JSON.
            DirectoryInUseError: Another process has taken over the directory.
            CheckpointError: An earlier save failed (this one was not started), the checkpointer is closed,
                or ``wait`` is set and this save failed.
        """
        if self._closed:
            raise CheckpointError(f"The checkpointer of {self._directory} is closed.")
        self._lease.check()
        snapshot = take_snapshot(step, variables, metadata, names)
        self.wait()
        if parts is not None:
            self._sweep()
            snapshot = snapshot_with_parts(self._directory, snapshot, parts)
        self._pending = self._thread.submit(self._write, snapshot, self._clock(), self._timer())
        if wait:
            self.wait()
        return checkpoint_path(self._directory, snapshot.step)

    def is_writing(self, wait_secs: float = 0.0) -> bool:
        """Return whether a save is under way, for which the next one would wait.

        Args:
            wait_secs: How long to wait for its end before, in seconds.
        """
        if self._pending is None:
            return False
        return bool(futures.wait([self._pending], wait_secs).not_done)

    def wait(self) -> None:
        """Wait until the save under way is on the disk.

        Raises:
            CheckpointError: The save failed; nothing of it is left, and other checkpoints are untouched.
        """
        if self._pending is not None:
            pending = self._pending
            pending.exception()  # an interrupted wait leaves it pending
            self._pending = None
            pending.result()

    def close(self) -> None:
        """Wait for the save under way and end the thread. May be called again.

        Raises:
            CheckpointError: The save failed.
        """
        self._closed = True
        try:
            self.wait()
        finally:
            self._thread.shutdown()
            self._lease.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except CheckpointError as exc:
            if error is None:
                raise
            # The error under way is the one to report.
            _log.error("%s", exc)

    def _write(self, snapshot: CheckpointContents, now: float, timer: float) -> None:
        if snapshot.parts is None:
            self._sweep()
        retention = self._keep_every_n_hours if self._max_to_keep else None
        if self._first is None:  # when the first checkpoint was written, by the timer
            self._first = timer - (now - first_written(self._directory, now))
        write_snapshot(self._directory, snapshot, now, now - (timer - self._first), retention)
        if self.on_saved is not None:
            self.on_saved(snapshot.step)
        if self._max_to_keep:
            # What other runs kept stays: those that keep all, or one for other hours.
            infos = list_checkpoints(self._directory)
            doomed = retain(
                [info for info in infos if info.keep_every_n_hours == retention],
                max_to_keep=self._max_to_keep,
                keep_every_n_hours=self._keep_every_n_hours,
                current=snapshot.step,
            )
            for info in doomed:
                delete_old_checkpoint(info.path)

    def _sweep(self) -> None:
        """Delete, once, what a process left that was killed while it wrote or deleted checkpoints."""
        if not self._swept:
            for path in filter(is_unfinished, scan(self._directory)):
                delete_old_checkpoint(path)
            self._swept = True
