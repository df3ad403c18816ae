"""Callbacks of ``fit`` under a strategy: who writes, what all agree on, what others are told."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from muster._keras import keras
from muster.cluster import TaskState
from muster.distribute._fit_input import Agreement, Wait
from muster.distribute._fit_tensorboard import TensorBoardScalars
from muster.distribute._strategy import Strategy

# They write, and change nothing in the model: the chief's are enough.
_WRITERS = (
    keras.callbacks.ModelCheckpoint,
    keras.callbacks.CSVLogger,
    keras.callbacks.RemoteMonitor,
    keras.callbacks.TensorBoard,
)


def callbacks_of(given: Sequence[Any], agreement: Agreement) -> list[Any]:
    """What a worker calls for the callbacks that the user gave."""
    if not agreement.is_chief:
        return [each for each in given if not isinstance(each, _WRITERS)]
    return [
        TensorBoardScalars(each) if isinstance(each, keras.callbacks.TensorBoard) else each for each in given
    ]


class Together(keras.callbacks.Callback):  # type: ignore[misc]
    """Lets all workers stop training where one of them does. The last of the callbacks."""

    def __init__(self, agreement: Agreement) -> None:
        super().__init__()
        self._agreement = agreement

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._agreement.after_step()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._agreement.after_epoch()


class Report(keras.callbacks.Callback):  # type: ignore[misc]
    """Starts the epochs of a run's batches, and tells the other tasks how far it is, once a second.

    Args:
        strategy: whose tasks they are.
        wait: for input.
        begin: called at the start of every epoch.
    """

    def __init__(self, strategy: Strategy, wait: Wait, begin: Callable[[], None]) -> None:
        super().__init__()
        self._report = strategy.reporter
        self._wait = wait
        self._begin = begin
        self._state: TaskState | None = None
        self._steps = self._told_steps = 0
        self._told_at = self._waited = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._begin()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._steps += 1
        if self._report is None:
            return
        if self._state is not TaskState.TRAINING:
            self._enter(TaskState.TRAINING)
        now = time.monotonic()
        if (secs := now - self._told_at) < 1.0:
            return
        loss = (logs or {}).get("loss")
        self._report(
            step=self._steps,
            loss=None if loss is None else float(loss),
            steps_per_sec=(self._steps - self._told_steps) / secs,
            input_wait=min(1.0, (self._wait.secs - self._waited) / secs),
        )
        self._told_at, self._told_steps, self._waited = now, self._steps, self._wait.secs

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._report is not None and self._state is None:
            self._enter(TaskState.EVALUATING)

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._report is not None and self._state is None:
            self._enter(TaskState.EVALUATING)

    def _enter(self, state: TaskState) -> None:
        self._state = state
        self._told_at, self._told_steps, self._waited = time.monotonic(), self._steps, self._wait.secs
        if self._report is not None:
            self._report(state=state)
