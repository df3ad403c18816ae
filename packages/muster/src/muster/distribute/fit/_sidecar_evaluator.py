"""Evaluate models that another process saves while it trains."""

import contextlib
import logging
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from muster._clocks import date_now, is_ahead
from muster._errors import CheckpointError, CheckpointMismatchError
from muster._keras import keras
from muster._paths import local_path
from muster.checkpoint import note_paths, read_note
from muster.distribute.fit._fit_callbacks import at_epochs
from muster.distribute.fit._keras_hooks import adopt
from muster.distribute.fit._saved_models import ModelFile, NewModels, list_saved, load_saved
from muster.distribute.fit._training_end import TrainingEnd
from muster.lifecycle import process_start

_log = logging.getLogger(__name__)

# How often to look for what is new, and how often to say that nothing is there yet, in seconds.
_LOOK_SECS = 1.0
_SAY_SECS = 30.0


class Evaluation(NamedTuple):
    """The results of evaluating a checkpoint.

    Attributes:
        path: The checkpoint, or the file.
        iterations: How many steps of the optimizer it is from; the number in its name if that was not saved.
        metrics: The metrics by name.
    """

    path: str
    iterations: int
    metrics: Mapping[str, float]


class SidecarEvaluator:
    """Evaluates each new checkpoint of a training that goes on in another process.

    It takes checkpoints of ``tf.train.Checkpoint(model=model, optimizer=optimizer)``, and files of Keras'
    ModelCheckpoint that end in ``.weights.h5`` or ``.keras``; always the newest complete one, so that it may
    skip some. It ends when training has ended by itself and the last checkpoint is evaluated.

    Args:
        model: A compiled model like the one that is trained.
        data: What ``model.evaluate`` takes as ``x``.
        checkpoint_dir: The directory of the checkpoints, which need not exist yet.
        steps: The number of batches of an evaluation; None for all.
        max_evaluations: End after the checkpoint of this number, which is the last one in its name, or after
            a later one; where names have none, after so many evaluations. None goes on until training has
            ended.
        callbacks: Callbacks for ``model.evaluate``.

    Raises:
        ValueError: The model is not compiled.

    Source: keras/src/utils/sidecar_evaluator.py, ``SidecarEvaluator``, which does not end by itself.
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        checkpoint_dir: str | os.PathLike[str],
        steps: int | None = None,
        max_evaluations: int | None = None,
        callbacks: Sequence[Any] | None = None,
    ) -> None:
        if not getattr(model, "compiled", False):
            raise ValueError(
                f"The model {getattr(model, 'name', model)!r} is not compiled: call `model.compile(...)` "
                "with the loss and the metrics to evaluate."
            )
        self.model = model
        self.data = data
        self.checkpoint_dir = local_path(checkpoint_dir)
        self.steps = steps
        self.max_evaluations = max_evaluations
        self.callbacks = list(callbacks or ())
        self._done: list[Evaluation] = []

    def start(self) -> list[Evaluation]:
        """Evaluate until training has ended, ``max_evaluations`` is reached, or Ctrl-C.

        Returns:
            The evaluations, in their order.

        Raises:
            CheckpointMismatchError: A checkpoint is of another model.
            CheckpointError: The directory cannot be listed.
            PeerLostError: Training is gone for ten minutes, and had not ended.
        """
        adopt(self.model)
        # Once for all evaluations: else each would have event files of its own.
        callbacks = [
            at_epochs(each, kept=True) if isinstance(each, keras.callbacks.TensorBoard) else each
            for each in self.callbacks
        ]
        self._done = []
        try:
            self._follow(callbacks)
        except KeyboardInterrupt:
            _log.info("SidecarEvaluator stops: it was interrupted, after %d evaluations.", len(self._done))
        finally:
            for each, given in zip(callbacks, self.callbacks, strict=True):
                if each is not given:
                    each.on_train_end()
        return self._done

    def _follow(self, callbacks: list[Any]) -> None:
        directory = self.checkpoint_dir
        end = TrainingEnd(directory, read_note(directory), fresh=_is_fresh(directory), now=time.monotonic())
        models = NewModels()
        say_at = time.monotonic() + _SAY_SECS
        while True:
            is_over = end.has_come(read_note(directory), time.monotonic())
            models.look(list_saved(directory))
            evaluated = False
            while not evaluated and (saved := models.next()) is not None:
                evaluated = self._try(saved, callbacks)
                (models.done if evaluated else models.skip)(saved)
            if self._done and self._is_last(self._done[-1]):
                _log.info("Last checkpoint evaluated. SidecarEvaluator stops.")
                return
            if evaluated:
                continue
            if is_over and not models.unsettled:
                _log.info("SidecarEvaluator stops: training has ended, and its last checkpoint is evaluated.")
                return
            if not self._done and time.monotonic() >= say_at:
                say_at += _SAY_SECS
                _log.info(
                    "There is no checkpoint in %s yet. Save them there by tf.train.CheckpointManager, or by "
                    "ModelCheckpoint as *.weights.h5 or *.keras.",
                    directory,
                )
            time.sleep(_LOOK_SECS)

    def _try(self, saved: ModelFile, callbacks: list[Any]) -> bool:
        """Evaluate; returns False if what was saved is gone or damaged."""
        if not self.model.built:
            self.model.evaluate(self.data, steps=1, verbose=0)
        try:
            iterations = load_saved(self.model, saved)
        except CheckpointMismatchError:
            raise
        except CheckpointError as exc:
            _log.warning("%s is not evaluated: %s", saved.path, exc)
            return False
        if iterations is None:
            iterations = saved.number or 0
            if getattr(self.model, "optimizer", None) is not None:
                self.model.optimizer.iterations.assign(iterations)
        _log.info("Evaluation starts: model weights loaded from %s.", saved.path)
        metrics = self.model.evaluate(
            self.data, steps=self.steps, callbacks=callbacks, verbose=2, return_dict=True
        )
        shown = " ".join(f"{name}={value}" for name, value in metrics.items())
        _log.info("End of evaluation after %d steps. Metrics: %s", iterations, shown)
        self._done.append(Evaluation(saved.path, iterations, metrics))
        return True

    def _is_last(self, evaluation: Evaluation) -> bool:
        if not self.max_evaluations:
            return False
        number = ModelFile(evaluation.path, 0.0).number
        return (len(self._done) if number is None else number) >= self.max_evaluations


def _is_fresh(directory: str) -> bool:
    """Return whether the note of training was written since this process began."""
    for path in note_paths(directory):
        with contextlib.suppress(OSError):
            written = os.stat(path).st_mtime
            # One that is dated later than now was written by another clock, and may be old.
            if written >= process_start() and not is_ahead(written, date_now(), f"The note {path}"):
                return True
    return False
