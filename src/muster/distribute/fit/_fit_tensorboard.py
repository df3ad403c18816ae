"""Keras' TensorBoard callback without TensorFlow, which Keras' own needs to write."""

import logging
import os
from typing import Any

from muster._keras import keras
from muster.summary import EventFileWriter

_log = logging.getLogger(__name__)


def tensorboard_scalars(callback: keras.callbacks.TensorBoard) -> "TensorBoardScalars":
    """Return the callback that writes what Keras' callback would, as far as it is scalars."""
    return TensorBoardScalars(callback) if callback.update_freq == "epoch" else _BatchScalars(callback)


class TensorBoardScalars(keras.callbacks.Callback):  # type: ignore[misc]
    """Writes the scalars of Keras' callback, to the same folders, under the same names.

    Args:
        callback: Keras' callback, which says where and how often to write.

    Source: keras/src/callbacks/tensorboard.py, ``TensorBoard``. Graphs, images, histograms, embeddings and
    profiles are not written.
    """

    def __init__(self, callback: keras.callbacks.TensorBoard) -> None:
        super().__init__()
        self._directory = callback.log_dir
        self._writers: dict[str, EventFileWriter] = {}
        options = ("histogram_freq", "write_images", "embeddings_freq", "write_steps_per_second")
        left_out = [option for option in options if getattr(callback, option)]
        if left_out:
            _log.warning("TensorBoard: only scalars are written; left out: %s.", ", ".join(left_out))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs = dict(logs or {})
        rate = getattr(self.model.optimizer, "learning_rate", None)
        if rate is not None:
            logs.setdefault("learning_rate", rate)
        of_validation = {name: logs.pop(name) for name in list(logs) if name.startswith("val_")}
        self._add("train", "epoch_{}", logs, epoch)
        unprefixed = {name.removeprefix("val_"): value for name, value in of_validation.items()}
        self._add("validation", "epoch_{}", unprefixed, epoch)
        for writer in self._writers.values():
            writer.flush()

    def on_test_end(self, logs: Any = None) -> None:
        self._add("validation", "evaluation_{}_vs_iterations", logs, int(self.model.optimizer.iterations))
        for writer in self._writers.values():
            writer.flush()

    def on_train_end(self, logs: Any = None) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _add(self, run: str, tag: str, values: dict[str, Any] | None, step: int) -> None:
        if not values:
            return
        if run not in self._writers:
            self._writers[run] = EventFileWriter(os.path.join(self._directory, run))
        named = {tag.format(name): float(value) for name, value in values.items()}
        self._writers[run].add_scalars(named, step)


class _BatchScalars(TensorBoardScalars):
    """Writes batches' scalars, too: a subclass, since Keras waits for each step if there is this hook."""

    def __init__(self, callback: keras.callbacks.TensorBoard) -> None:
        super().__init__(callback)
        self._every = int(callback.update_freq)
        self._batches = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._batches += 1
        if self._batches % self._every == 0:
            self._add("train", "batch_{}", logs, self._batches)
