"""Evaluation and prediction: each example once, with the variables of a checkpoint."""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import jax
import numpy as np

from muster._remote import remote_url
from muster.checkpoint import Checkpoint
from muster.cluster.roster import TaskState
from muster.distribute import Strategy
from muster.distribute.input import synchronized
from muster.estimator._estimator_spec import ModeKeys
from muster.estimator._model_fn import InputFn
from muster.estimator._words import written_out
from muster.estimator.hooks._base import SessionRunHook
from muster.estimator.hooks._nan import EvaluationNanHook
from muster.estimator.hooks._stop import StopAfterNEvalsHook
from muster.estimator.loop._batch import StepBatch
from muster.estimator.loop._batches import own_input
from muster.estimator.loop._chiefs_checkpoint import chiefs_checkpoint
from muster.estimator.loop._host_part import without_given
from muster.estimator.loop._progress_bar import metrics_line, progress_bar
from muster.estimator.loop._run_loop import TrainingSession, run_loop
from muster.estimator.loop._setup import EstimatorSetup, log_restored
from muster.estimator.loop._tracing import GLOBAL_STEP, LOSS, METRICS, PREDICTIONS, summaries_among
from muster.program import ImageOutput
from muster.summary import EventFileWriter, images_summary

_log = logging.getLogger(__name__)


def evaluate(
    setup: EstimatorSetup,
    *,
    strategy: Strategy,
    reported_by: Strategy,
    input_fn: InputFn,
    hooks: Sequence[SessionRunHook],
    steps: int | None,
    checkpoint: Checkpoint | None,
) -> dict[str, Any]:
    """Evaluate, and return the metrics by name, ``loss`` and ``global_step`` among them.

    Args:
        setup: The Estimator's model and config.
        strategy: Where to run.
        reported_by: ``strategy``, or in a pause of training the one to train with: its other workers, which
            wait, are told that this one evaluates.
        input_fn: The user's function.
        hooks: The user's hooks.
        steps: How many batches to take; None for all.
        checkpoint: What to evaluate, with an empty path if it was not read; None for initial values.
    """
    returned = setup.call_input_fn(input_fn, ModeKeys.EVAL, hooks, strategy.input_context)
    which = f" step {checkpoint.step}" if checkpoint is not None else ""
    with (
        progress_bar(setup.config, f"Evaluating{which}", "batches") as bar,
        strategy.workers.supervised(setup.config.session_creation_timeout_secs, doing="evaluate"),
        reported_by.workers.reporting(TaskState.EVALUATING),
        own_input(
            [returned],
            ModeKeys.EVAL,
            strategy.local_replicas,
            seed=setup.config.tf_random_seed,
            prepare=setup.prepare,
            host=setup.host,
        ) as batches,
        ExitStack() as resources,
    ):
        setup.log_share(batches, strategy)
        checkpoint = chiefs_checkpoint(strategy, setup.model_dir, checkpoint, resources)
        program, state = setup.trace(ModeKeys.EVAL, batches, checkpoint, strategy)
        session, asked = setup.start(program, state, checkpoint, strategy)
        bar.follow(session, steps)
        began = time.monotonic()
        _log.info("Starting evaluation at %s", time.strftime("%Y-%m-%dT%H:%M:%S"))
        log_restored(checkpoint)
        progress = StopAfterNEvalsHook(steps, log_progress=steps is not None)
        with synchronized(strategy.workers, strategy.local_replicas, batches) as shared:
            checks = [EvaluationNanHook(LOSS), progress]
            run_loop(session, asked.step, shared, [*hooks, *program.static.evaluation_hooks, *checks])
        _log.info("Inference Time : %.5fs", time.monotonic() - began)
        _log.info("Finished evaluation at %s", time.strftime("%Y-%m-%dT%H:%M:%S"))
        outputs = {**session.outputs[METRICS], LOSS: session.outputs[LOSS]}
        metrics = jax.tree.map(lambda value: np.array(value)[()], outputs)
        for name, summary in summaries_among(program.static.eval_metric_ops).items():
            value = session.run(summary)
            metrics[name] = images_summary(name, value) if isinstance(summary, ImageOutput) else value
        evaluated = f"step {session.global_step}: {metrics_line(metrics)}"
        bar.conclude(f"Evaluated {evaluated}")
        if reported_by.workers.reporter is not None:
            reported_by.workers.reporter(evaluation=evaluated)
        return {**metrics, GLOBAL_STEP: np.int64(session.global_step)}


def write_metrics(writer: EventFileWriter, metrics: Mapping[str, Any], checkpoint: Checkpoint | None) -> None:
    """Log the metrics, and write the numbers and images among them, and the checkpoint's path, as summaries.

    Args:
        writer: Takes the summaries, and is flushed.
        metrics: Name -> number, array, or images as a ``Summary`` message, with ``global_step``.
        checkpoint: The checkpoint that was evaluated; None for initial values.

    Source: ``_write_dict_to_summary`` (tensorflow_estimator/python/estimator/estimator.py).
    """
    step = int(metrics[GLOBAL_STEP])
    shown = {name: "images" if isinstance(value, bytes) else str(value) for name, value in metrics.items()}
    line = ", ".join(f"{name} = {shown[name]}" for name in sorted(shown))
    _log.info("Saving dict for global step %d: %s", step, line)
    numbers = {}
    for name, value in metrics.items():
        if name == GLOBAL_STEP:
            continue
        if isinstance(value, bytes):
            writer.add_summary(value, step)
        elif np.ndim(value) == 0 and np.issubdtype(np.asarray(value).dtype, np.number):
            numbers[name] = float(value)
        else:
            _log.warning("The metric %r has the shape %s: no summary of it.", name, np.shape(value))
    writer.add_scalars(numbers, step)
    if checkpoint is not None and checkpoint.path:
        path = remote_url(checkpoint.path)
        _log.info("Saving 'checkpoint_path' summary for global step %d: %s", step, path)
        writer.add_text("checkpoint_path", path, step)
    writer.flush()


def predict(
    setup: EstimatorSetup,
    *,
    strategy: Strategy,
    input_fn: InputFn,
    hooks: Sequence[SessionRunHook],
    checkpoint: Checkpoint | None,
    keys: str | Sequence[str] | None,
    single_examples: bool,
) -> Iterator[Any]:
    """Yield predictions, NumPy arrays in the structure of the model_fn's, until the input ends.

    Args:
        setup: The Estimator's model and config.
        strategy: Where to run.
        input_fn: The user's function.
        hooks: The user's hooks.
        checkpoint: What to predict with; None for initial values.
        keys: Which of the predictions to return; None for all.
        single_examples: Whether to return one example at a time rather than a batch.
    """
    returned = setup.call_input_fn(input_fn, ModeKeys.PREDICT, hooks, strategy.input_context)
    with (
        progress_bar(setup.config, "Predicting", "batches") as bar,
        own_input([returned], ModeKeys.PREDICT, prepare=setup.prepare, host=setup.host) as batches,
    ):
        program, state = setup.trace(ModeKeys.PREDICT, batches, checkpoint, strategy)
        spec = program.static
        checked_keys = _checked_keys(spec.predictions, keys)
        session, asked = setup.start(program, state, checkpoint, strategy)
        bar.follow(session, None)
        log_restored(checkpoint)
        # Signals are not held back here: between two yields the caller's code runs, not a step.
        all_hooks = [*hooks, *spec.prediction_hooks]
        given: list[StepBatch] = []

        def for_steps() -> Iterator[StepBatch]:
            for batch in batches:
                given[:] = [batch]
                yield without_given(batch)

        with TrainingSession(session, asked.step, for_steps(), all_hooks, hold_signals=False) as running:
            while not running.should_stop():
                running.run()
                passed = setup.host.values_passed(given[0])
                predictions = written_out(session.outputs[PREDICTIONS], passed)
                if checked_keys is not None:
                    predictions = {key: predictions[key] for key in checked_keys}
                bar.hold()
                if single_examples:
                    yield from _single_examples(predictions)
                else:
                    yield predictions
                bar.go_on()


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
