"""The hooks of every training, around those of the user."""

from collections.abc import Sequence

from muster.estimator._estimator_spec import EstimatorSpec
from muster.estimator._run_config import RunConfig
from muster.estimator.hooks import (
    CheckpointSaverHook,
    CheckpointSaverListener,
    LoggingTensorHook,
    NanTensorHook,
    SessionRunHook,
    StepCounterHook,
    SummarySaverHook,
)
from muster.estimator.loop._tracing import LOSS, STEP_BEFORE
from muster.program import Program
from muster.summary import EventFileWriter


def training_hooks(
    program: Program[EstimatorSpec],
    config: RunConfig,
    user_hooks: Sequence[SessionRunHook],
    listeners: Sequence[CheckpointSaverListener],
    writer: EventFileWriter | None,
) -> list[SessionRunHook]:
    """The hooks of a training in the order in which TensorFlow's Estimator calls them.

    Args:
        program: The traced model_fn.
        config: Says how often to save, to log and to write summaries.
        user_hooks: Those given to ``train``.
        listeners: Told of each checkpoint, by the user's CheckpointSaverHook if there is one.
        writer: Takes summaries; None where none are written.

    Source: ``Estimator._train_with_estimator_spec`` (tensorflow_estimator/python/estimator/estimator.py).
    """
    spec = program.static
    hooks: list[SessionRunHook] = []
    saver = _given_saver(program, user_hooks)
    if not config.is_chief:
        user_hooks = [hook for hook in user_hooks if not isinstance(hook, CheckpointSaverHook)]
    elif saver is not None:
        saver.add_listeners(listeners)
    elif _saves(config):
        hooks.append(
            CheckpointSaverHook(
                config.model_dir or "",
                save_secs=config.save_checkpoints_secs,
                save_steps=config.save_checkpoints_steps,
                listeners=listeners,
            )
        )
    if config.is_chief:
        hooks += spec.training_chief_hooks
    if config.log_step_count_steps:
        hooks.append(StepCounterHook(config.log_step_count_steps, summary_writer=writer))
    if config.save_summary_steps:
        scalars = {**program.summaries, LOSS: LOSS}
        hooks.append(SummarySaverHook(config.save_summary_steps, summary_writer=writer, summary_op=scalars))
    hooks += [*user_hooks, NanTensorHook(LOSS)]
    if config.log_step_count_steps:
        tensors = {LOSS: LOSS, "step": STEP_BEFORE}
        hooks.append(LoggingTensorHook(tensors, every_n_iter=config.log_step_count_steps))
    return [*hooks, *spec.training_hooks]


def require_saver(
    program: Program[EstimatorSpec],
    config: RunConfig,
    user_hooks: Sequence[SessionRunHook],
    listeners: Sequence[CheckpointSaverListener],
) -> None:
    """Check that there are checkpoints for the listeners to hear of.

    Raises:
        ValueError: There are listeners, and nothing saves.
    """
    if listeners and _given_saver(program, user_hooks) is None and not _saves(config):
        raise ValueError(
            "There should be a CheckpointSaverHook to use saving_listeners. Please set one of the "
            "RunConfig.save_checkpoints_steps or RunConfig.save_checkpoints_secs."
        )


def _given_saver(
    program: Program[EstimatorSpec], user_hooks: Sequence[SessionRunHook]
) -> CheckpointSaverHook | None:
    spec = program.static
    given = (*user_hooks, *spec.training_hooks, *spec.training_chief_hooks)
    return next((hook for hook in given if isinstance(hook, CheckpointSaverHook)), None)


def _saves(config: RunConfig) -> bool:
    return bool(config.save_checkpoints_secs or config.save_checkpoints_steps)
