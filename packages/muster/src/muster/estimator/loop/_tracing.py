"""Trace a model_fn into a program, with the outputs of its mode."""

import contextlib
import functools
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import jax

from muster._arrays import AnyArray
from muster._errors import DatasetError
from muster._keras import keras
from muster.distribute.input import StepInput
from muster.estimator._estimator_spec import EstimatorSpec, ModeKeys
from muster.estimator._model_fn import ModelFn, call_model_fn
from muster.estimator._run_config import RunConfig
from muster.estimator.loop._batch import StepBatch
from muster.estimator.loop._host_part import HostPart, for_step, forwarding, without_given
from muster.estimator.session._fetches import result_of
from muster.program import (
    Output,
    common_value,
    get_or_create_global_step,
    offer_output,
    replica_weight,
    run_updates,
    synchronize_metrics,
    value_after_updates,
)
from muster.program.trace import Program, functions_run_eagerly, reserve_outputs, steps_held_back

_log = logging.getLogger(__name__)

GLOBAL_STEP = "global_step"
LOSS = "loss"
METRICS = "metrics"
PREDICTIONS = "predictions"
STEP_BEFORE = "step"
_OUTPUTS = {
    ModeKeys.TRAIN: (GLOBAL_STEP, LOSS, STEP_BEFORE),
    ModeKeys.EVAL: (GLOBAL_STEP, LOSS, METRICS),
    ModeKeys.PREDICT: (GLOBAL_STEP, PREDICTIONS),
}


def trace_model_fn(
    model_fn: ModelFn,
    mode: ModeKeys,
    batches: StepInput,
    params: Mapping[str, Any],
    config: RunConfig,
    known: Mapping[str, AnyArray],
    host: HostPart,
    *,
    resumes: bool,
) -> Program[EstimatorSpec]:
    """Trace a model_fn on the shapes of the first batch, and learn its variables and hooks.

    Args:
        model_fn: The user's function.
        mode: Whether to train, evaluate or predict.
        batches: The input, whose first batch is the example.
        params: The Estimator's.
        config: The Estimator's; its ``tf_random_seed`` seeds initial values.
        known: Path -> initial value of a variable, in place of its initializer's.
        host: Shows batches to the model_fn that have text, and learns what the host is to compute of it.
        resumes: Whether ``known`` counts for metrics, too, which go on after an interruption.

    Returns:
        The program. Its outputs are, besides what the model_fn named: in TRAIN ``loss``, ``step`` (the global
        step before) and ``global_step`` (after); in EVAL ``loss`` (the mean of the batches' so far) and
        ``metrics``; in PREDICT ``predictions``. Its static value is the EstimatorSpec.

    Raises:
        DatasetError: There is no first batch.
        ValueError: The model_fn returns anything but an EstimatorSpec of the mode, or a metric
            called ``loss`` or ``global_step``.
    """
    example = batches.example
    if example is None:
        raise DatasetError(
            f"The input_fn for {mode} gave no batch: its dataset is empty. It reads {batches.share}. If "
            "it drops the remainder, its batch size may be larger than the data."
        )

    example = for_step(without_given(example))

    def run(batch: StepBatch) -> tuple[dict[str, Any], EstimatorSpec]:
        reserve_outputs(*_OUTPUTS[mode])
        global_step = get_or_create_global_step()
        before = global_step.value
        with host.shown(batch, example) as shown, steps_held_back() as settle:
            with forwarding(batch.given):
                spec = call_model_fn(model_fn, shown.features, shown.labels, mode, params, config)
            predictions = host.passed_on(spec.predictions) if mode == ModeKeys.PREDICT else None
            for each in settle(spec.train_op):
                if mode == ModeKeys.TRAIN:
                    _warn_of_step(each.name)
        if spec.mode != mode:
            raise ValueError(f"model_fn was called in the mode {mode}, but returned the mode {spec.mode}.")
        _offer_to_hooks(spec)
        match mode:
            case ModeKeys.TRAIN:
                outputs = {LOSS: common_value(spec.loss), STEP_BEFORE: before, GLOBAL_STEP: global_step.value}
            case ModeKeys.EVAL:
                mean = keras.metrics.Mean(name="mean_loss_of_batches", dtype="float32")
                mean.update_state(spec.loss, sample_weight=replica_weight())
                run_updates(each[1] for each in spec.eval_metric_ops.values() if isinstance(each, tuple))
                synchronize_metrics()
                summaries = summaries_among(spec.eval_metric_ops)
                given = spec.eval_metric_ops.items()
                metrics = {name: metric_value(each) for name, each in given if name not in summaries}
                outputs = {LOSS: mean.result(), GLOBAL_STEP: before, METRICS: metrics}
            case ModeKeys.PREDICT:
                outputs = {PREDICTIONS: predictions, GLOBAL_STEP: before}
        return outputs, spec

    _log.info("Calling model_fn.")
    program = Program(
        run,
        example,
        known=known,
        known_local=resumes,
        local_updates_only=mode != ModeKeys.TRAIN,
        seed=config.tf_random_seed,
    )
    _log.info("Done calling model_fn.")
    if mode == ModeKeys.TRAIN and not program.updates(GLOBAL_STEP):
        _log.warning(
            "The model_fn never advances the global step, so that max_steps is not reached and no checkpoint "
            "is saved on the way. Pass global_step=muster.get_or_create_global_step() to minimize."
        )
    for name in (LOSS, GLOBAL_STEP):
        if mode == ModeKeys.EVAL and name in program.static.eval_metric_ops:
            raise ValueError(
                f'Metric with name "{name}" is not allowed, because Estimator already defines a default '
                "metric with the same name."
            )
    return program


@functools.cache
def _warn_of_step(name: str) -> None:
    # A model_fn asks for its steps anew each time that it is called.
    _log.warning(
        "The model_fn asks for a step of %s that its train_op does not run, so that it changes no variable, "
        "as in TensorFlow. To take that step, too, return tf.group of the steps as train_op.",
        name,
    )


def _offer_to_hooks(spec: EstimatorSpec) -> None:
    """Offer the values of the step that hooks of the model_fn have: they may fetch them later."""
    hooks = (
        *(*spec.training_chief_hooks, *spec.training_hooks),
        *(*spec.evaluation_hooks, *spec.prediction_hooks),
    )
    for hook in hooks:
        for name, given in (*getattr(hook, "__dict__", {}).items(), *_enclosed(type(hook))):
            for value in jax.tree.leaves(given):
                result = result_of(value) if isinstance(value, keras.metrics.Metric) else value
                if isinstance(result, jax.core.Tracer):
                    offer_output(f"{type(hook).__name__}/{name}", result)


def _enclosed(hook: type) -> Iterator[tuple[str, Any]]:
    """Yield by name what the methods of a class use of the variables of the model_fn that defines it."""
    for owner in hook.__mro__:
        for method in vars(owner).values():
            for name, cell in zip(
                getattr(getattr(method, "__code__", None), "co_freevars", ()),
                getattr(method, "__closure__", None) or (),
                strict=True,
            ):
                with contextlib.suppress(ValueError):  # the model_fn has not set it
                    yield name, cell.cell_contents


def summaries_among(metrics: Mapping[str, Any]) -> dict[str, Output]:
    """Return the metrics whose value is a summary of the last batch, such as `summary_image` returns."""
    values = {name: each[0] for name, each in metrics.items() if isinstance(each, tuple)}
    return {name: value for name, value in values.items() if isinstance(value, Output)}


def metric_value(metric: Any) -> Any:
    """Return the value of a Keras metric, or of a pair (value, update), after all updates of the step.

    As in TensorFlow the value of a pair is computed then, from what variables hold; it may be a structure of
    metrics, variables and arrays. Where the step runs untraced, an update that is an array stands for a value
    that has been computed before it.

    Source: ``_evaluate_once`` (tensorflow/python/training/evaluation.py), which runs values last.
    """
    value, update = metric if isinstance(metric, tuple) else (metric, None)
    if functions_run_eagerly() and isinstance(update, jax.Array) and isinstance(value, jax.Array):
        return update

    def after(each: Any) -> Any:
        match each:
            case keras.metrics.Metric():
                return each.result()
            case keras.Variable():
                return each.value
            case jax.Array():
                return value_after_updates(each)
        return each

    return jax.tree.map(
        after, value, is_leaf=lambda each: isinstance(each, keras.metrics.Metric | keras.Variable)
    )
