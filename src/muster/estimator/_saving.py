"""Saving a training: its state and the place where its input stands."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from muster.checkpoint import Checkpoint, Checkpointer, amend_metadata, latest_checkpoint
from muster.estimator._batches import Batches
from muster.summary import EventFileWriter, SessionLog


class TrainingSaver:
    """Writes the state of a session, with the position of its input, through a Checkpointer."""

    def __init__(self, checkpointer: Checkpointer, batches: Batches, writer: EventFileWriter | None) -> None:
        self._checkpointer = checkpointer
        self._batches = batches
        self._writer = writer

    def __call__(self, state: Mapping[str, Any], step: int, wait: bool) -> None:
        # Copies: NumPy would see the very buffers that the next step writes into.
        arrays = {path: np.array(value) for path, value in state.items()}
        metadata = {"input": self._batches.position, "ended": False}
        self._checkpointer.save(step, arrays, metadata, wait=wait)
        if self._writer is not None:
            self._writer.add_session_log(SessionLog.CHECKPOINT, step, self._checkpointer.directory)
            self._writer.flush()


def mark_ended(model_dir: str, step: int) -> None:
    """Note in the last checkpoint that training ended by itself: the next one starts the input afresh.

    Args:
        model_dir: where the checkpoints are; none is being written.
        step: the step at which training ended.
    """
    path = latest_checkpoint(model_dir)
    if path is not None and path.endswith(f"-{step}"):
        amend_metadata(path, {"ended": True})


def was_interrupted(checkpoint: Checkpoint | None) -> bool:
    """Whether the training that wrote a checkpoint did not end by itself."""
    return checkpoint is not None and not checkpoint.metadata.get("ended", True)
