"""Keras 2's arguments of Keras' callbacks: ``ModelCheckpoint(period=…)``, ``TensorBoard(write_grads=…)``.

A callback's ``model`` may also be set, as outside of `fit`. In logs, a rate is called ``lr``.

Source: keras/callbacks.py, of Keras 2.15.
"""

import functools
import logging
from collections.abc import Callable
from typing import Any

from muster import keras
from muster_tensorflow.patches import change, wrap

_RATE = "learning_rate"
_log = logging.getLogger(__name__)

# Which names each callback takes as those of what is to rise.
_RISES: dict[str, Callable[[str], bool]] = {
    "EarlyStopping": lambda name: name.endswith(("acc", "accuracy", "auc")),
    "ModelCheckpoint": lambda name: "acc" in name or name.startswith("fmeasure"),
    "ReduceLROnPlateau": lambda name: "acc" in name,
}

# What TensorBoard took in TensorFlow 1, and TensorFlow 2 leaves out with a warning.
_UNUSED = (
    *("write_grads", "batch_size", "embeddings_layer_names", "embeddings_data", "histogram_batch_size"),
    "profile_batch_size",
)


def _taking_period(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``ModelCheckpoint.__init__``, so that it takes ``period``: every how many epochs it saves."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, period: int = 1, **kwargs: Any) -> None:
        if not isinstance(period, int) or period < 1:
            raise ValueError(f"period is the number of epochs from one save to the next, got {period!r}.")
        if kwargs.pop("load_weights_on_restart", False):
            raise TypeError(
                "ModelCheckpoint has no load_weights_on_restart. Use keras.callbacks.BackupAndRestore, which "
                "also goes on at the right epoch."
            )
        kwargs.pop("options", None)
        original(self, *args, **kwargs)
        self.period = period
        self.epochs_since_last_save = 0

    return init


def _saving_by_period(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``ModelCheckpoint.on_epoch_end``, so that it saves in the last epoch of each period."""

    @functools.wraps(original)
    def on_epoch_end(self: Any, epoch: int, logs: Any = None) -> None:
        self.epochs_since_last_save += 1
        if self.epochs_since_last_save >= self.period:
            self.epochs_since_last_save = 0
            original(self, epoch, logs)

    return on_epoch_end


def _leaving_out(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``TensorBoard.__init__``, so that it leaves out what TensorFlow 2 does not have, either."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        unused = [name for name in _UNUSED if kwargs.pop(name, None) is not None]
        if unused:
            _log.warning("TensorBoard leaves out %s, which was TensorFlow 1's.", ", ".join(unused))
        original(self, *args, **kwargs)

    return init


def _without(original: Callable[..., None], *unused: str) -> Callable[..., None]:
    """Wrap a callback's ``__init__``, so that it takes arguments that have no effect any more."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in unused:
            kwargs.pop(name, None)
        original(self, *args, **kwargs)

    return init


def _of_arrays(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``LearningRateScheduler.__init__``, whose function may return an array, as of ``tf.exp``."""

    @functools.wraps(original)
    def init(self: Any, schedule: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        @functools.wraps(schedule)
        def rate(*given: Any) -> Any:
            found = schedule(*given)
            return float(found) if hasattr(found, "dtype") else found

        original(self, rate, *args, **kwargs)

    return init


def _logging_lr(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``on_epoch_end`` of what changes rates: in logs, and so in a history, a rate is called ``lr``."""

    @functools.wraps(original)
    def on_epoch_end(self: Any, epoch: int, logs: Any = None) -> None:
        logs = {} if logs is None else logs
        original(self, epoch, logs)
        if _RATE in logs:
            logs["lr"] = logs.pop(_RATE)

    return on_epoch_end


def _finding_direction(original: Callable[..., None], rises: Callable[[str], bool]) -> Callable[..., None]:
    """Wrap ``_set_monitor_op``: Keras 2 knows by a name whether more is better, Keras 3 by the metric alone.

    So Keras 3 refuses functions and what has the name of an output in its name, such as ``val_out_accuracy``.
    """

    @functools.wraps(original)
    def set_monitor_op(self: Any) -> None:
        try:
            original(self)
        except ValueError:  # the only reason: no metric has the name and a direction
            self.monitor_op = keras.ops.greater if rises(self.monitor) else keras.ops.less
            if not rises(self.monitor):
                self.min_delta *= -1

    return set_monitor_op


def _restoring_if_stopped(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``EarlyStopping.on_train_end``: where training was not stopped, the last weights stay."""

    @functools.wraps(original)
    def on_train_end(self: Any, logs: Any = None) -> None:
        best = self.best_weights
        if not self.stopped_epoch:
            self.best_weights = None
        original(self, logs)
        self.best_weights = best

    return on_train_end


def _skipping_unknown(original: Callable[..., bool]) -> Callable[..., bool]:
    """Wrap ``ModelCheckpoint._should_save_model``: without the monitored value nothing is the best.

    Keras 3 would put the last model in the place of the best one. It also compares only from the end of the
    first epoch on.
    """

    @functools.wraps(original)
    def should_save(self: Any, epoch: Any, batch: Any, logs: Any, filepath: Any) -> bool:
        if self.save_best_only:
            if (logs or {}).get(self.monitor) is None:
                _log.warning("Can save best model only with %s available, skipping.", self.monitor)
                return False
            if self.monitor_op is None:
                self._set_monitor_op()
        return original(self, epoch, batch, logs, filepath)

    return should_save


class _Epochs(dict[str, list[Any]]):
    """The logs of `fit` by epoch; the learning rate also under Keras 3's name."""

    def __missing__(self, name: str) -> list[Any]:
        if name == _RATE and "lr" in self:
            return self["lr"]
        raise KeyError(name)


def _keeping(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``History.on_train_begin``."""

    @functools.wraps(original)
    def on_train_begin(self: Any, logs: Any = None) -> None:
        original(self, logs)
        self.history = _Epochs(self.history)

    return on_train_begin


def _set_model(callback: Any, model: Any) -> None:
    callback._model = model


def patch() -> None:
    """Let Keras' callbacks take the arguments."""
    base = keras.callbacks.Callback
    change(base, "model", base.model.setter(_set_model))
    checkpoint, board = keras.callbacks.ModelCheckpoint, keras.callbacks.TensorBoard
    change(checkpoint, "period", 1)
    change(checkpoint, "epochs_since_last_save", 0)  # also of those made before
    wrap(checkpoint, "__init__", _taking_period)
    wrap(checkpoint, "on_epoch_end", _saving_by_period)
    wrap(checkpoint, "_should_save_model", _skipping_unknown)
    stopping = keras.callbacks.EarlyStopping
    wrap(stopping, "on_train_end", _restoring_if_stopped)
    wrap(board, "__init__", _leaving_out)
    scheduler = keras.callbacks.LearningRateScheduler
    wrap(scheduler, "__init__", _of_arrays)
    backup, bar = keras.callbacks.BackupAndRestore, keras.callbacks.ProgbarLogger
    change(backup, "__init__", _without(backup.__init__, "save_before_preemption"))
    change(bar, "__init__", _without(bar.__init__, "count_mode", "stateful_metrics"))
    for rates in (keras.callbacks.LearningRateScheduler, keras.callbacks.ReduceLROnPlateau):
        wrap(rates, "on_epoch_end", _logging_lr)
    for kind, rises in _RISES.items():
        callback = getattr(keras.callbacks, kind)
        change(callback, "_set_monitor_op", _finding_direction(callback._set_monitor_op, rises))
    wrap(keras.callbacks.History, "on_train_begin", _keeping)
