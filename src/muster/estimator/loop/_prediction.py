"""Prediction: what the model_fn predicts, an example or a batch at a time."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from muster.checkpoint import Checkpoint
from muster.distribute import Strategy
from muster.estimator._mode_keys import ModeKeys
from muster.estimator._model_fn import InputFn
from muster.estimator.hooks._base import SessionRunHook
from muster.estimator.loop._batches import Batches
from muster.estimator.loop._run_loop import TrainingSession
from muster.estimator.loop._setup import ModelSetup, log_restored
from muster.estimator.loop._tracing import PREDICTIONS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prediction:
    """One call of ``Estimator.predict``.

    Args:
        setup: The Estimator's model and config.
        strategy: Where to run.
        input_fn: The user's function.
        hooks: The user's hooks.
        checkpoint: What to predict with; None for initial values.
        keys: Which of the predictions to return; None for all.
        single_examples: Whether to return one example at a time rather than a batch.
    """

    setup: ModelSetup
    strategy: Strategy
    input_fn: InputFn
    hooks: Sequence[SessionRunHook]
    checkpoint: Checkpoint | None
    keys: str | Sequence[str] | None
    single_examples: bool

    def run(self) -> Iterator[Any]:
        """Yield predictions, NumPy arrays in the structure of the model_fn's, until the input ends."""
        setup, checkpoint = self.setup, self.checkpoint
        returned = setup.call_input_fn(self.input_fn, ModeKeys.PREDICT, self.strategy)
        with Batches(returned, ModeKeys.PREDICT) as batches:
            program = setup.trace(ModeKeys.PREDICT, batches, checkpoint)
            spec = program.static
            keys = _checked_keys(spec.predictions, self.keys)
            state = setup.initial_state(program, checkpoint)
            session, step = setup.start(program, state, checkpoint, self.strategy)
            log_restored(checkpoint)
            # Signals are not held back here: between two yields the caller's code runs, not a step.
            running = TrainingSession(
                session, step, batches, [*self.hooks, *spec.prediction_hooks], hold_signals=False
            )
            with running:
                while not running.should_stop():
                    running.run()
                    predictions = jax.tree.map(np.array, session.outputs[PREDICTIONS])
                    if keys is not None:
                        predictions = {key: predictions[key] for key in keys}
                    if self.single_examples:
                        yield from _single_examples(predictions)
                    else:
                        yield predictions


def _checked_keys(predictions: Any, keys: str | Sequence[str] | None) -> list[str] | None:
    if keys is None:
        return None
    wanted = [keys] if isinstance(keys, str) else list(keys)
    if not isinstance(predictions, Mapping):
        raise ValueError("predict_keys argument is not valid in case of non-dict predictions.")
    found = [key for key in wanted if key in predictions]
    if not found:
        raise ValueError(f"Expected to run at least one output from {predictions.keys()}, provided {wanted}.")
    return found


def _single_examples(predictions: Any) -> Iterator[Any]:
    leaves, structure = jax.tree.flatten(predictions)
    lengths = {leaf.shape[0] if leaf.ndim else None for leaf in leaves}
    if len(lengths) != 1 or None in lengths:
        shapes = [leaf.shape for leaf in leaves]
        raise ValueError(
            f"Batch length of predictions should be same; their shapes are {shapes}. Give a row for each "
            "example, or call predict with yield_single_examples=False."
        )
    for row in zip(*leaves, strict=True):
        yield jax.tree.unflatten(structure, row)
