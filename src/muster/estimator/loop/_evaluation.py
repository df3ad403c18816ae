"""Evaluation: each example once, and the metrics that come of it."""

import dataclasses
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from muster.checkpoint import Checkpoint
from muster.cluster.roster import TaskState
from muster.distribute import Strategy
from muster.distribute.engine import Step
from muster.distribute.input import synchronized
from muster.estimator._mode_keys import ModeKeys
from muster.estimator._model_fn import InputFn
from muster.estimator.hooks._base import SessionRunHook
from muster.estimator.hooks._stop import StopAfterNEvalsHook
from muster.estimator.loop._batches import Batches
from muster.estimator.loop._run_loop import run_loop
from muster.estimator.loop._saving import require_same_checkpoint
from muster.estimator.loop._setup import ModelSetup, log_restored
from muster.estimator.loop._tracing import GLOBAL_STEP, LOSS, METRICS
from muster.estimator.session._session import Session
from muster.summary import EventFileWriter

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
    """One call of ``Estimator.evaluate``.

    Args:
        setup: The Estimator's model and config.
        strategy: Where to run.
        reported_by: The strategy whose other workers are told that this one evaluates.
        input_fn: The user's function.
        hooks: The user's hooks.
        steps: How many batches to take; None for all.
        checkpoint: What to evaluate; None for initial values.
    """

    setup: ModelSetup
    strategy: Strategy
    reported_by: Strategy
    input_fn: InputFn
    hooks: Sequence[SessionRunHook]
    steps: int | None
    checkpoint: Checkpoint | None

    def run(self) -> dict[str, Any]:
        """Evaluate, and return the metrics by name, ``loss`` and ``global_step`` among them."""
        setup, strategy, checkpoint = self.setup, self.strategy, self.checkpoint
        returned = setup.call_input_fn(self.input_fn, ModeKeys.EVAL, strategy)
        with (
            strategy.workers.supervised(setup.config.session_creation_timeout_secs),
            self.reported_by.workers.reporting(TaskState.EVALUATING),
            Batches(returned, ModeKeys.EVAL, seed=setup.config.tf_random_seed) as batches,
        ):
            setup.log_share(batches, strategy)
            require_same_checkpoint(strategy, setup.model_dir, checkpoint)
            program = setup.trace(ModeKeys.EVAL, batches, checkpoint)
            state = setup.initial_state(program, checkpoint)
            session, step = setup.start(program, state, checkpoint, strategy)
            self._take_steps(session, step, batches, program.static.evaluation_hooks)
            return _metrics_of(session)

    def _take_steps(
        self, session: Session, step: Step, batches: Batches, hooks: Sequence[SessionRunHook]
    ) -> None:
        began = time.monotonic()
        _log.info("Starting evaluation at %s", time.strftime("%Y-%m-%dT%H:%M:%S"))
        log_restored(self.checkpoint)
        progress = StopAfterNEvalsHook(self.steps, log_progress=self.steps is not None)
        workers, replicas = self.strategy.workers, self.strategy.local_replicas
        with synchronized(workers, replicas, batches, batches.first) as shared:
            run_loop(session, step, shared, [*self.hooks, *hooks, progress])
        _log.info("Inference Time : %.5fs", time.monotonic() - began)
        _log.info("Finished evaluation at %s", time.strftime("%Y-%m-%dT%H:%M:%S"))


def _metrics_of(session: Session) -> dict[str, Any]:
    outputs = {**session.outputs[METRICS], LOSS: session.outputs[LOSS]}
    read: dict[str, Any] = jax.tree.map(np.array, outputs)
    return {**{name: value[()] for name, value in read.items()}, GLOBAL_STEP: np.int64(session.global_step)}


def write_metrics(writer: EventFileWriter, metrics: Mapping[str, Any], checkpoint: Checkpoint | None) -> None:
    """Log the metrics, and write the numbers among them, and the path of the checkpoint, as summaries.

    Args:
        writer: Takes the summaries, and is flushed.
        metrics: Name -> number or array, with ``global_step``.
        checkpoint: The checkpoint that was evaluated; None for initial values.

    Source: ``_write_dict_to_summary`` (tensorflow_estimator/python/estimator/estimator.py).
    """
    step = int(metrics[GLOBAL_STEP])
    line = ", ".join(f"{name} = {metrics[name]!s}" for name in sorted(metrics))
    _log.info("Saving dict for global step %d: %s", step, line)
    numbers = {}
    for name, value in metrics.items():
        if name == GLOBAL_STEP:
            continue
        if np.ndim(value) == 0 and np.issubdtype(np.asarray(value).dtype, np.number):
            numbers[name] = float(value)
        else:
            _log.warning("The metric %r has the shape %s: no summary of it.", name, np.shape(value))
    writer.add_scalars(numbers, step)
    if checkpoint is not None:
        _log.info("Saving 'checkpoint_path' summary for global step %d: %s", step, checkpoint.path)
        writer.add_text("checkpoint_path", checkpoint.path, step)
    writer.flush()
