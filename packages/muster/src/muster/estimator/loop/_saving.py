"""Checkpoints of a training: its state, and the position of its input."""

import logging
import os
from collections.abc import Callable, Container
from typing import Any

import numpy as np

from muster._arrays import LazyArray
from muster.checkpoint import Checkpointer, amend_metadata, checkpoint_path, latest_checkpoint
from muster.cluster.roster import TaskState
from muster.distribute import Strategy
from muster.distribute.engine import StateStore
from muster.distribute.input import Position, StepInput
from muster.estimator.session._session import Session
from muster.summary import EventFileWriter, SessionLog

_log = logging.getLogger(__name__)

# How long a periodic save waits for the one before, in seconds, before it is put off.
_PATIENCE_SECS = 0.02


class TrainingSaver:
    """Saves the state of a session, with the positions of all workers' inputs.

    Args:
        checkpointer: Writes the checkpoints of the model directory.
        open_checkpointer: Opens what writes those of another directory.
        strategy: Its other workers, which wait, are told that this one saves.
        writer: Records checkpoints among the summaries.
        left_out: The paths of variables that are in no checkpoint.

    Attributes:
        more: Returns further metadata of a checkpoint: the states of hooks.
    """

    def __init__(
        self,
        checkpointer: Checkpointer,
        open_checkpointer: Callable[[str], Checkpointer],
        strategy: Strategy,
        writer: EventFileWriter,
        left_out: Container[str] = (),
    ) -> None:
        self._checkpointers = {os.path.realpath(checkpointer.directory): checkpointer}
        self._open_checkpointer = open_checkpointer
        self._model_dir = checkpointer.directory
        self._strategy = strategy
        self._position: Callable[[], Position] = Position
        self._patience = _PATIENCE_SECS
        self._saving: dict[str, int] = {}  # the last step by directory
        self._writer = writer
        self._left_out = left_out
        self.more: Callable[[], dict[str, Any]] = dict

    def follow(self, steps: StepInput, session: Session) -> None:
        """Save the position of an input from now on, after as many steps as a session has made."""
        self._position = lambda: steps.position(session.steps_taken)

    def has_saved(self, step: int) -> bool:
        """Return whether a step is saved in the model directory, or is being saved."""
        return self._saving.get(os.path.realpath(self._model_dir)) == step

    def is_late(self, directory: str) -> bool:
        """Return whether a periodic save has to be put off, since the one before is still being written.

        Where others make steps meanwhile, it is better to save a few steps later than to stand still. Workers
        in step wait: their checkpoints are of the steps that they were asked for.
        """
        checkpointer = self._checkpointers.get(os.path.realpath(directory))
        if not self._strategy.steps.shared or checkpointer is None:
            return False
        patience, self._patience = self._patience, 0.0  # once for each save
        return checkpointer.is_writing(patience)

    def __call__(self, store: StateStore, step: int, wait: bool, directory: str | None) -> None:
        place = os.path.realpath(directory or self._model_dir)
        if place not in self._checkpointers:
            self._checkpointers[place] = self._open_checkpointer(place)
        checkpointer = self._checkpointers[place]
        if self._saving.get(place) == step:
            if wait:
                checkpointer.wait()
            return
        if store.lacks_rows:
            _log.info("The first checkpoint comes after a step, when hashed tables have rows, and not now.")
            return
        own, parts = store.to_save()
        # Copies: NumPy would see the very buffers that the next step writes into.
        arrays = {
            path: value if isinstance(value, LazyArray) else np.array(value)
            for path, value in own.items()
            if path not in self._left_out
        }
        metadata = {"input": self._position().to_json(), "ended": False, **self.more()}
        self._patience = _PATIENCE_SECS
        with self._strategy.workers.reporting(TaskState.SAVING):
            checkpointer.save(step, arrays, metadata, parts=parts, wait=wait)
        self._saving[place] = step
        self._writer.add_session_log(SessionLog.CHECKPOINT, step, checkpointer.directory)
        self._writer.flush()

    def end(self, step: int) -> None:
        """Wait for the last checkpoints, and note in them that training ended by itself at this step."""
        with self._strategy.workers.reporting(TaskState.SAVING):
            for checkpointer in self._checkpointers.values():
                checkpointer.wait()
                path = checkpoint_path(checkpointer.directory, step)
                if path == latest_checkpoint(checkpointer.directory):
                    mark_ended(path)


def mark_ended(path: str) -> None:
    """Note in a checkpoint that training ended by itself there: the next one starts the input afresh."""
    amend_metadata(path, {"ended": True})
