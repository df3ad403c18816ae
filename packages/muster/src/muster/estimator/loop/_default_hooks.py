"""The default hooks of training, added to the user's."""

import os
from collections.abc import Callable, Sequence

from muster.cluster.roster import TaskState
from muster.distribute.workers import ProgressReporter
from muster.estimator._estimator_spec import EstimatorSpec
from muster.estimator._run_config import RunConfig
from muster.estimator.hooks._base import SessionRunContext, SessionRunHook, SessionRunValues
from muster.estimator.hooks._checkpoint_saver import CheckpointSaverHook, CheckpointSaverListener
from muster.estimator.hooks._logging import LoggingTensorHook
from muster.estimator.hooks._nan import NanTensorHook
from muster.estimator.hooks._summary_saver import StepCounterHook, SummarySaverHook
from muster.estimator.loop._hook_states import keeps_state
from muster.estimator.loop._tracing import LOSS, STEP_BEFORE
from muster.estimator.session._session import Coordinator, Session
from muster.program.trace import Program
from muster.summary import EventFileWriter


class ProgressReport(SessionRunHook):
    """Reports step, speed, loss and the share of time that is spent on input, once a second.

    Args:
        report: Takes the fields of ``muster.cluster.Progress`` by name.
        progress: Reports what comes with steps.
        steps: How many steps to add; None for no limit.
        max_steps: The global step to stop at; None for no limit.
    """

    def __init__(
        self,
        report: Callable[..., None],
        progress: ProgressReporter,
        steps: int | None,
        max_steps: int | None,
    ) -> None:
        self._report, self._progress = report, progress
        self._steps, self._max_steps = steps, max_steps

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Report the step that training begins at."""
        last = self._max_steps if self._steps is None else session.global_step + self._steps
        self._report(step=session.global_step, max_steps=last)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Report if it is due; after the first step, which compiles, that this task trains."""
        session = run_context.session
        self._progress.after_steps(
            TaskState.TRAINING,
            session.global_step,
            session.steps_taken,
            session.input_wait_secs,
            lambda: {"loss": float(session.run(LOSS))},
        )

    def end(self, session: Session) -> None:
        """Report the last step."""
        if session.steps_taken:
            self._progress.finish(session.global_step, {"loss": float(session.run(LOSS))})

    def interrupted(self, session: Session) -> None:
        """Report the last step."""
        self.end(session)

    def steps_until_due(self, session: Session) -> int | None:
        """Return None: the period is in seconds."""
        return None


def training_hooks(
    program: Program[EstimatorSpec],
    config: RunConfig,
    user_hooks: Sequence[SessionRunHook],
    listeners: Sequence[CheckpointSaverListener],
    writer: EventFileWriter | None,
    *,
    is_chief: bool,
) -> list[SessionRunHook]:
    """Return all hooks of a training, in the order of TensorFlow's Estimator; first those that have a state.

    Args:
        program: The traced model_fn.
        config: Says how often to save, to log and to write summaries.
        user_hooks: The argument of ``train``.
        listeners: Called around each checkpoint of the model directory.
        writer: Takes summaries; None where none are written.
        is_chief: Whether this worker saves.

    Source: ``Estimator._train_with_estimator_spec`` (tensorflow_estimator/python/estimator/estimator.py).
    """
    spec = program.static
    hooks: list[SessionRunHook] = []
    saver = _users_saver(program, config, user_hooks)
    if not is_chief:
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
    if is_chief:
        hooks += spec.training_chief_hooks
    if config.log_step_count_steps:
        hooks.append(StepCounterHook(config.log_step_count_steps, summary_writer=writer))
    if config.save_summary_steps:
        summaries = {**program.summaries, LOSS: LOSS}
        hooks.append(SummarySaverHook(config.save_summary_steps, summary_writer=writer, summary_op=summaries))
    hooks += [*user_hooks, NanTensorHook(LOSS)]
    if config.log_step_count_steps:
        tensors = {LOSS: LOSS, "step": STEP_BEFORE}
        hooks.append(LoggingTensorHook(tensors, every_n_iter=config.log_step_count_steps))
    hooks += spec.training_hooks
    # A checkpoint has the states after its step.
    return sorted(hooks, key=lambda hook: not keeps_state(hook))


def require_saver(
    program: Program[EstimatorSpec],
    config: RunConfig,
    user_hooks: Sequence[SessionRunHook],
    listeners: Sequence[CheckpointSaverListener],
) -> None:
    """Check that something saves checkpoints, if there are listeners.

    Raises:
        ValueError: There are listeners, and nothing saves.
    """
    if listeners and _users_saver(program, config, user_hooks) is None and not _saves(config):
        raise ValueError(
            "There should be a CheckpointSaverHook to use saving_listeners. Please set one of the "
            "RunConfig.save_checkpoints_steps or RunConfig.save_checkpoints_secs."
        )


def _users_saver(
    program: Program[EstimatorSpec], config: RunConfig, user_hooks: Sequence[SessionRunHook]
) -> CheckpointSaverHook | None:
    """Return the user's hook in place of the Estimator's: one for another directory saves beside it."""
    spec = program.static
    hooks = (*user_hooks, *spec.training_hooks, *spec.training_chief_hooks)
    savers = [hook for hook in hooks if isinstance(hook, CheckpointSaverHook)]
    model_dir = os.path.realpath(config.model_dir or "")
    here = [hook for hook in savers if os.path.realpath(hook.checkpoint_dir) == model_dir]
    return next(iter(here if _saves(config) else here + savers), None)


def _saves(config: RunConfig) -> bool:
    return bool(config.save_checkpoints_secs or config.save_checkpoints_steps)
