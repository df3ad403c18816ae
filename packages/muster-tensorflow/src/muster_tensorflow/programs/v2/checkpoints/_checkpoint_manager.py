"""``tf.train.CheckpointManager``, which saves checkpoints in a directory and deletes old ones."""

import os
from collections.abc import Callable
from typing import Any

from muster import checkpoint
from muster.checkpoint import BASENAME
from muster.checkpoint.tensorflow import newest_checkpoint
from muster.extend import local_path
from muster_tensorflow.programs.v2.checkpoints._checkpoint import Checkpoint, CheckpointOptions
from muster_tensorflow.programs.v2.checkpoints._named_checkpoints import numbered


class CheckpointManager:
    """Saves checkpoints in a directory, and deletes old ones.

    Args:
        checkpoint: The objects to save.
        directory: The directory of the checkpoints.
        max_to_keep: The number of newest checkpoints to keep; None keeps all.
        keep_checkpoint_every_n_hours: Of the older checkpoints, the first of each period of so many hours is
            kept, too; only with the name ``ckpt``.
        checkpoint_name: The name of the checkpoints.
        step_counter: A variable of the step, which ``checkpoint_interval`` counts.
        checkpoint_interval: The least number of steps between two saves.
        init_fn: Called by `restore_or_initialize` if there is no checkpoint.

    Source: tensorflow/python/checkpoint/checkpoint_management.py, ``CheckpointManager``.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: str | os.PathLike[str],
        max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = BASENAME,
        step_counter: Any = None,
        checkpoint_interval: int | None = None,
        init_fn: Callable[[], object] | None = None,
    ) -> None:
        if not isinstance(checkpoint, Checkpoint):
            raise TypeError(f"CheckpointManager needs a tf.train.Checkpoint, got {checkpoint!r}.")
        if checkpoint_interval is not None and step_counter is None:
            raise ValueError("`step_counter` should be passed if `checkpoint_interval` is not None.")
        if keep_checkpoint_every_n_hours is not None and checkpoint_name != BASENAME:
            raise ValueError(
                f"keep_checkpoint_every_n_hours is for checkpoints of the name {BASENAME!r}, got "
                f"checkpoint_name={checkpoint_name!r}: leave one of them out."
            )
        checkpoint.is_managed = True
        self._checkpoint = checkpoint
        self._directory = local_path(directory)
        self._max_to_keep = max_to_keep
        self._hours = 10000.0 if keep_checkpoint_every_n_hours is None else keep_checkpoint_every_n_hours
        self._name = checkpoint_name
        self._step_counter = step_counter
        self._interval = checkpoint_interval
        self._init_fn = init_fn
        self._last_step: int | None = None

    @property
    def checkpoint(self) -> Checkpoint:
        """The objects to save."""
        return self._checkpoint

    @property
    def directory(self) -> str:
        """The directory of the checkpoints."""
        return self._directory

    @property
    def checkpoints(self) -> list[str]:
        """The paths of all checkpoints, the newest last."""
        if self._name == BASENAME:
            return [info.path for info in checkpoint.list_checkpoints(self._directory)]
        return numbered(self._directory, self._name)

    @property
    def latest_checkpoint(self) -> str | None:
        """The path of the newest checkpoint, or None."""
        if self._name == BASENAME:
            return newest_checkpoint(self._directory)
        return next(iter(reversed(self.checkpoints)), None)

    @property
    def checkpoint_interval(self) -> int | None:
        """The least number of steps between two saves."""
        return self._interval

    def save(
        self,
        checkpoint_number: int | None = None,
        check_interval: bool = True,
        options: CheckpointOptions | None = None,
    ) -> str | None:
        """Save, delete old checkpoints, and return the path.

        Args:
            checkpoint_number: The number of the checkpoint, such as the step; None counts the saves.
            check_interval: Whether to save only if ``checkpoint_interval`` steps have passed.
            options: Accepted for TensorFlow's programs.

        Returns:
            The path; None if it is too early.
        """
        if self._interval is not None:
            step = int(self._step_counter)
            if check_interval and self._last_step is not None and step - self._last_step < self._interval:
                return None
            self._last_step = step
        if checkpoint_number is not None:
            self._checkpoint.save_counter = int(checkpoint_number) - 1
        if self._name != BASENAME:
            path = self._checkpoint.save(os.path.join(self._directory, self._name))
            for old in self.checkpoints[: -self._max_to_keep] if self._max_to_keep else []:
                checkpoint.delete_old_checkpoint(old)
            return path
        with checkpoint.Checkpointer(
            self._directory, max_to_keep=self._max_to_keep, keep_every_n_hours=self._hours
        ) as writer:
            return self._checkpoint.save_with(writer)

    def restore_or_initialize(self) -> str | None:
        """Restore the newest checkpoint and return its path; without one, call ``init_fn``, return None."""
        latest = self.latest_checkpoint
        if latest is None and self._name == BASENAME:
            checkpoint.restore_latest(
                self._directory, tables=False
            )  # an error where there is something of one
        if latest is None and self._init_fn is not None:
            self._init_fn()
        self._checkpoint.restore(latest)
        return latest
