"""Callbacks of ``fit`` under a strategy, which keep workers in step, report progress, and write summaries.

Keras' TensorBoard callback writes muster's summaries instead of TensorFlow's: `summaries_of` and
`setting_model` take the place of a public property and of a public method of Keras' class, `collecting_rate`
of a private one. So classes that are derived from it write, too, and every tag, step and folder is Keras'.

Source: keras/src/callbacks/tensorboard.py, ``TensorBoard``, of Keras 3.15.
"""

import contextlib
import functools
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from muster import summary
from muster._keras import keras
from muster._paths import local_path
from muster.checkpoint import note_training
from muster.cluster.roster import TaskState
from muster.distribute.fit._agreement import Agreement
from muster.distribute.fit._fit_input import InputWait
from muster.distribute.workers._progress import ProgressReporter
from muster.distribute.workers._workers import Exchanged
from muster.summary import EventFileWriter, SummaryWriter, create_file_writer

_log = logging.getLogger(__name__)

_STEP_HOOKS = ("on_train_batch_begin", "on_train_batch_end", "on_test_batch_begin", "on_test_batch_end")


def summaries_of(callback: Any) -> "_Summaries":
    """Return what a TensorBoard callback writes by: it has the functions of ``tf.summary``."""
    return _Summaries()


class _Summaries:
    """The functions of ``tf.summary``, whose writers are flushed when a block at an epoch's end is left."""

    def create_file_writer(self, logdir: str) -> summary.SummaryWriter:
        return _FlushedWriter(summary.EventFileWriter(logdir, filename_suffix=".v2"))

    def __getattr__(self, name: str) -> Any:
        return getattr(summary, name)


class _FlushedWriter(summary.SummaryWriter):
    @contextlib.contextmanager
    def as_default(self, step: Any = None) -> Iterator[summary.SummaryWriter]:
        if step is not None:  # as Keras gives it for all that code at a step writes
            with super().as_default(step):
                yield self
            return
        # What is written at an epoch's end does not depend on update_freq, as in TensorFlow's Keras.
        with super().as_default(), summary.record_if(True):
            yield self
        self.flush()


def setting_model(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``set_model``, in which Keras imports TensorFlow to write the layers of the model."""

    @functools.wraps(original)
    def set_model(self: Any, model: Any) -> None:
        if self.embeddings_freq:
            _log.warning(
                "TensorBoard: its projector reads TensorFlow's checkpoints; embeddings_freq is left out."
            )
            self.embeddings_freq = 0
        graph, self.write_graph = self.write_graph, False
        try:
            original(self, model)
        finally:
            self.write_graph = graph
        if graph and model.built:
            _write_layers(os.path.join(self.log_dir, "train"), model)

    return set_model


def collecting_rate(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``_collect_learning_rate``: the ``learning_rate`` of a legacy optimizer may be its schedule."""

    @functools.wraps(original)
    def collect(self: Any, logs: dict[str, Any]) -> Any:
        optimizer = self.model.optimizer
        rate = getattr(optimizer, "learning_rate", None)
        if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
            logs["learning_rate"] = float(keras.ops.convert_to_numpy(rate(optimizer.iterations)))
            return logs
        return original(self, logs)

    return collect


def _write_layers(folder: str, model: Any) -> None:
    """Write the layers of a model, if they are known before it is called and can be described."""
    if type(model).__name__ not in ("Functional", "Sequential"):
        return
    try:
        config = model.to_json()
    except Exception as exc:  # what the user's layers raise
        _log.warning("TensorBoard: the layers of %s cannot be described: %s", model.name, exc)
        return
    with summary.EventFileWriter(folder, filename_suffix=".v2") as writer:
        writer.add_keras_model("keras", config, 0)


def at_epochs(callback: keras.callbacks.TensorBoard, *, kept: bool = False) -> keras.callbacks.Callback:
    """Return a callback that does the same, without hooks for steps if it writes nothing at steps.

    Keras waits for the results of each step if there is one.

    Args:
        callback: Keras' callback.
        kept: Whether several evaluations are written to the same files; else each one has its own.
    """
    own = [
        hook
        for hook in _STEP_HOOKS
        if getattr(type(callback), hook) is not getattr(keras.callbacks.TensorBoard, hook)
    ]
    # The attribute is private: without it, steps may be profiled.
    profiles = getattr(callback, "_should_trace", True)
    return callback if own or profiles or callback.update_freq != "epoch" else _AtEpochs(callback, kept)


class _AtEpochs(keras.callbacks.Callback):  # type: ignore[misc]
    """Calls a callback at epochs and at the beginning and the end of a run, and not at steps."""

    def __init__(self, callback: keras.callbacks.Callback, kept: bool) -> None:
        super().__init__()
        self._callback = callback
        self._kept = kept

    def set_params(self, params: dict[str, Any]) -> None:
        self._callback.set_params(params)

    def set_model(self, model: Any) -> None:
        if not self._kept or self._model is not model:
            self._callback.set_model(model)
        super().set_model(model)

    def on_train_begin(self, logs: Any = None) -> None:
        self._callback.on_train_begin(logs)

    def on_train_end(self, logs: Any = None) -> None:
        self._callback.on_train_end(logs)

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._callback.on_epoch_begin(epoch, logs)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._callback.on_epoch_end(epoch, logs)

    def on_test_begin(self, logs: Any = None) -> None:
        self._callback.on_test_begin(logs)

    def on_test_end(self, logs: Any = None) -> None:
        self._callback.on_test_end(logs)


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
    if agreement.elastic:
        return [_when_chief(each, agreement) if _is_chiefs(each) else each for each in callbacks]
    if not agreement.is_chief:
        return [each for each in callbacks if not _is_chiefs(each)]
    return [at_epochs(each) if isinstance(each, keras.callbacks.TensorBoard) else each for each in callbacks]


def _is_chiefs(callback: keras.callbacks.Callback) -> bool:
    """Return whether only the chief needs a callback, which changes nothing but files and other systems."""
    return isinstance(callback, _WRITERS) or _tracks(callback)


def _when_chief(callback: keras.callbacks.Callback, agreement: Agreement) -> keras.callbacks.Callback:
    """Return a callback that calls another while this worker is the chief, from its beginning on."""
    if isinstance(callback, keras.callbacks.TensorBoard):
        callback = at_epochs(callback)
    begun = False

    def forward(hook: str) -> Callable[..., None]:
        def call(self: Any, *args: Any, **kwargs: Any) -> None:
            nonlocal begun
            if not agreement.is_chief:
                return
            if not begun:
                begun = True
                callback.set_params(self.params)
                callback.set_model(self.model)
                if hook != "on_train_begin":
                    callback.on_train_begin()
            getattr(callback, hook)(*args, **kwargs)

        return call

    base = keras.callbacks.Callback
    hooks = [
        hook
        for hook in dir(base)
        if hook.startswith("on_") and getattr(type(callback), hook) is not getattr(base, hook)
    ]
    kind = type("WhenChief", (base,), {hook: forward(hook) for hook in {"on_train_begin", *hooks}})
    return kind()


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
        report: Reports the epochs, and that this task continues to train; None if there are no other tasks.
        begin_steps: Called with the epoch when its steps are to begin; None for nothing.
    """

    def __init__(
        self,
        agreement: Agreement,
        begin: Callable[[], None],
        report: "Report | None",
        begin_steps: Callable[[int], None] | None = None,
    ) -> None:
        super().__init__()
        self._begin_steps = begin_steps
        self._agreement = agreement
        self._report = report
        self._begin = begin

    def on_train_begin(self, logs: Any = None) -> None:
        if self._report is not None:
            self._report.begin()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._agreement.randomness()  # a callback may have drawn on one worker only
        self._begin()
        if self._begin_steps is not None:
            self._begin_steps(epoch)
        if self._report is not None:
            self._report.begin_epoch(epoch, self.params)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self._report is not None:
            self._report.end_epoch(epoch, logs or {})
            self._report.enter(TaskState.TRAINING)
        self._agreement.after_steps()
        self._agreement.after_epoch()


class Report(ProgressReporter):
    """Reports what this task does and how far it is to the other tasks, once a second.

    Args:
        report: Takes the fields of ``muster.cluster.Progress`` by name.
        wait: Measures how long steps wait for input.
        exchanged: What this process exchanges with other tasks.
    """

    def __init__(self, report: Callable[..., None], wait: InputWait, exchanged: Exchanged) -> None:
        super().__init__(report, exchanged)
        self._fields = report
        self._input_wait = wait
        self._trained = 0
        self._begun = self._done = self._epochs = 0  # steps before this fit; epochs of it so far, and in all

    def begin(self) -> None:
        """Note that ``fit`` begins."""
        self._begun, self._done = self._trained, 0

    def begin_epoch(self, epoch: int, params: Mapping[str, Any]) -> None:
        """Report that an epoch begins.

        Args:
            epoch: Its number, from 0.
            params: Those of Keras' callbacks.
        """
        self._epochs = params.get("epochs") or 0
        steps = params.get("steps")
        self._fields(
            epoch=epoch + 1,
            epochs=self._epochs or None,
            max_steps=self._begun + steps * (self._done + self._epochs - epoch) if steps else None,
        )

    def end_epoch(self, epoch: int, results: Mapping[str, Any]) -> None:
        """Report what an epoch has brought.

        Args:
            epoch: Its number, from 0.
            results: The loss and the metrics that Keras has computed, by name.
        """
        self._done += 1
        steps = (self._trained - self._begun) / self._done
        self._fields(max_steps=self._trained + round(steps * (self._epochs - epoch - 1)))
        numbers = _numbers(results)
        self.finish(self._trained, numbers)
        if tested := {name: value for name, value in numbers.items() if name.startswith("val_")}:
            text = ", ".join(f"{name} {value:.4g}" for name, value in sorted(tested.items()))
            self._fields(evaluation=f"epoch {epoch + 1}: {text}")

    def note_summaries(self, callbacks: Sequence[Any]) -> None:
        """Report where callbacks write summaries."""
        for each in callbacks:
            if isinstance(each, keras.callbacks.TensorBoard):
                self._fields(summaries=os.path.abspath(each.log_dir))

    def saved(self, number: int) -> None:
        """Report a backup that was written; any thread may call this."""
        self._fields(checkpoint=number)

    def after_step(self, state: TaskState, steps: int, logs: Any) -> None:
        """Report if it is due.

        Args:
            state: What this task does.
            steps: How many steps were taken.
            logs: Keras' results of the last of them.
        """
        if state is TaskState.TRAINING:
            self._trained += steps
        self.after_steps(state, self._trained, self._trained, self._input_wait.secs, lambda: _numbers(logs))


def _numbers(logs: Any) -> dict[str, float]:
    """Return Keras' results of a step that are numbers, waiting for them."""
    if not isinstance(logs, Mapping):
        return {}
    return {name: float(value) for name, value in logs.items() if not np.ndim(value)}
