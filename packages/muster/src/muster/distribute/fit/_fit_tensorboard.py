"""Keras' TensorBoard callback, writing muster's summaries instead of TensorFlow's.

`summaries_of` and `setting_model` take the place of a public property and of a public method of Keras' class:
so classes that are derived from it write, too, and every tag, step and folder is Keras'.

Source: keras/src/callbacks/tensorboard.py, ``TensorBoard``, of Keras 3.15.
"""

import contextlib
import functools
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

from muster import summary
from muster._keras import keras

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
