"""Callbacks of ``fit`` under a strategy, which keep the workers in step and report progress."""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from muster._keras import keras
from muster._paths import local_path
from muster.checkpoint import note_training
from muster.cluster.roster import TaskState
from muster.distribute.fit._agreement import Agreement
from muster.distribute.fit._fit_input import Wait
from muster.distribute.fit._fit_tensorboard import at_epochs
from muster.distribute.workers._progress import ProgressReporter
from muster.summary import EventFileWriter, SummaryWriter, create_file_writer


class HParamsCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Writes the hyperparameters of a run when it begins, and that it has ended well; on the chief only.

    Args:
        writer: The folder of the run's summaries, or a writer.
        hparams: Name or `muster.summary.HParam` -> a number, a truth value or a text.
        trial_id: The name of all runs with these values; None takes a hash of them.

    Source: tensorboard/plugins/hparams/_keras.py, ``Callback``.
    """

    def __init__(
        self,
        writer: str | os.PathLike[str] | SummaryWriter,
        hparams: Mapping[Any, Any],
        trial_id: str | None = None,
    ) -> None:
        super().__init__()
        self._writer = writer if isinstance(writer, SummaryWriter) else local_path(writer)
        self._hparams = dict(hparams)
        self._trial_id = trial_id
        self._events: EventFileWriter | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Write the hyperparameters."""
        if not isinstance(self._writer, SummaryWriter):
            self._writer = create_file_writer(self._writer)
        self._events = self._writer.events
        if self._events is not None:
            self._events.add_hparams(self._hparams, trial_id=self._trial_id)
            self._events.flush()

    def on_train_end(self, logs: Any = None) -> None:
        """Write that the run has ended."""
        if self._events is not None:
            self._events.add_hparams_end()
            self._events.flush()


# They write files and do not change the model, so that only the chief needs them.
_WRITERS = (
    keras.callbacks.ModelCheckpoint,
    keras.callbacks.CSVLogger,
    keras.callbacks.RemoteMonitor,
    keras.callbacks.TensorBoard,
    HParamsCallback,
)

# Packages whose callbacks send a run's numbers to a tracker: once for all workers.
_TRACKERS = ("mlflow", "wandb")


def callbacks_of(
    callbacks: Sequence[keras.callbacks.Callback], agreement: Agreement
) -> list[keras.callbacks.Callback]:
    """Return the user's callbacks as this worker calls them: only the chief's write files, and track."""
    if not agreement.is_chief:
        return [each for each in callbacks if not isinstance(each, _WRITERS) and not _tracks(each)]
    return [at_epochs(each) if isinstance(each, keras.callbacks.TensorBoard) else each for each in callbacks]


def _tracks(callback: keras.callbacks.Callback) -> bool:
    return any(kind.__module__.partition(".")[0] in _TRACKERS for kind in type(callback).__mro__)


def note_saves(callbacks: Sequence[Any]) -> None:
    """Note, for who evaluates them, that this program trains where ModelCheckpoint saves."""
    for each in callbacks:
        if isinstance(each, keras.callbacks.ModelCheckpoint):
            directory = os.path.dirname(os.path.abspath(each.filepath))
            if "{" not in directory:
                with contextlib.suppress(OSError):  # Keras says what is wrong when it saves
                    os.makedirs(directory, exist_ok=True)
                note_training(directory)


class Saves(keras.callbacks.Callback):  # type: ignore[misc]
    """Reports that this task saves at the end of an epoch. The first callback, since others may save."""

    def __init__(self, report: "Report") -> None:
        super().__init__()
        self._report = report

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._report.enter(TaskState.SAVING)


class Epochs(keras.callbacks.Callback):  # type: ignore[misc]
    """Begins each epoch's batches, and stops all workers if one stops. The last callback.

    It has no hook for steps, for which Keras would wait for the results of each.

    Args:
        agreement: Keeps the workers in step.
        begin: Called at the start of every epoch.
        report: Reports that this task continues to train; None if there are no other tasks.
    """

    def __init__(self, agreement: Agreement, begin: Callable[[], None], report: "Report | None") -> None:
        super().__init__()
        self._agreement = agreement
        self._report = report
        self._begin = begin

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._agreement.randomness()  # a callback may have drawn on one worker only
        self._begin()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self._report is not None:
            self._report.enter(TaskState.TRAINING)
        self._agreement.after_steps()
        self._agreement.after_epoch()


class Report(ProgressReporter):
    """Reports what this task does and how far it is to the other tasks, once a second.

    Args:
        report: Takes the fields of ``muster.cluster.Progress`` by name.
        wait: Measures how long steps wait for input.
    """

    def __init__(self, report: Callable[..., None], wait: Wait) -> None:
        super().__init__(report)
        self._wait = wait
        self._trained = 0

    def after_step(self, state: TaskState, steps: int, logs: Any) -> None:
        """Report if it is due.

        Args:
            state: What this task does.
            steps: How many steps were taken.
            logs: Keras' results of the last of them.
        """
        if state is TaskState.TRAINING:
            self._trained += steps
        self.after_steps(
            state, self._trained, self._wait.secs, lambda: float(logs["loss"]) if "loss" in logs else None
        )
