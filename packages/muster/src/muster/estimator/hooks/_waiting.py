"""Hooks of workers beside others, on parameter servers: they wait for what the others have done."""

import logging
import os
from collections.abc import Callable
from typing import Protocol

from muster._paths import local_path
from muster.checkpoint import list_checkpoints
from muster.estimator.hooks._base import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from muster.estimator.hooks._stop import StopAtStepHook
from muster.estimator.session import clock
from muster.estimator.session._session import Session

_log = logging.getLogger(__name__)

# How often to ask for the global step, in seconds, and after how many steps of others to log it.
_ASK_SECS = 0.5
_LOG_STEPS = 1000


class GlobalStepWaiterHook(SessionRunHook):
    """Waits before the first step until other workers have brought the global step to a number.

    So the first steps are made by fewer workers, which is gentler. Where nobody else advances the global
    step, it does not wait, and says so.

    Source: tensorflow/python/training/basic_session_run_hooks.py, ``GlobalStepWaiterHook``, which waits for
    ever there.
    """

    def __init__(self, wait_until_step: int) -> None:
        """Choose the step.

        Args:
            wait_until_step: The global step to wait for.
        """
        self._wait_until_step = wait_until_step
        self._waited = False

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Wait, the first time."""
        session = run_context.session
        if self._waited:
            return None
        self._waited = True
        if self._wait_until_step <= 0:
            return None
        _log.info("Waiting for global step %d before starting training.", self._wait_until_step)
        if session.look_up_step is not None:
            self._wait(session, session.look_up_step)
        elif session.global_step < self._wait_until_step:
            _log.warning("Starting at step %d: there is no other worker to wait for.", session.global_step)
        return None

    def _wait(self, session: Session, look_up_step: Callable[[], int | None]) -> None:
        logged = 0
        while (step := look_up_step()) is not None and step < self._wait_until_step:
            if session.interrupted():
                return
            if step > logged + _LOG_STEPS:
                logged = step
                _log.info(
                    "Waiting for global step %d before starting training. Current step is %d.",
                    self._wait_until_step,
                    step,
                )
            clock.sleep(_ASK_SECS)


class StopAtCheckpointStepHook(SessionRunHook):
    """Stops a worker once a checkpoint of a step is written, by the chief.

    Source: tensorflow_estimator/python/estimator/hooks/hooks.py, ``_StopAtCheckpointStepHook``.
    """

    def __init__(
        self, model_dir: str | os.PathLike[str], last_step: int, wait_after_file_check_secs: float = 30
    ) -> None:
        """Choose the step.

        Args:
            model_dir: Where the chief saves.
            last_step: The step of that checkpoint.
            wait_after_file_check_secs: How long to wait from one look for it to the next, in seconds.

        Raises:
            ValueError: No step is given.
        """
        if last_step is None:
            raise ValueError("last_step must be specified.")
        if model_dir is None:
            raise ValueError("model_dir must be specified.")
        self._model_dir = local_path(model_dir, remote=True)
        self._last_step = last_step
        self._wait_secs = wait_after_file_check_secs

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Look for the checkpoint once the step is reached, and wait a while if there is none."""
        session = run_context.session
        if session.global_step < self._last_step:
            return
        checkpoints = list_checkpoints(self._model_dir)
        if checkpoints and checkpoints[-1].step >= self._last_step:
            run_context.request_stop()
            return
        end = clock.now() + self._wait_secs
        while (left := end - clock.now()) > 0 and not session.interrupted():
            clock.sleep(min(left, _ASK_SECS))


class _Config(Protocol):
    """A RunConfig, of which these are used."""

    @property
    def is_chief(self) -> bool:
        """True if this task saves."""

    @property
    def num_ps_replicas(self) -> int:
        """The number of parameter servers."""


class _Configured(Protocol):
    """An Estimator, of which these are used."""

    @property
    def config(self) -> _Config:
        """Its config."""

    @property
    def model_dir(self) -> str:
        """The directory of its checkpoints."""


def make_stop_at_checkpoint_step_hook(
    estimator: _Configured, last_step: int, wait_after_file_check_secs: float = 30
) -> SessionRunHook:
    """Return a hook that stops training once a step is reached and saved.

    Beside parameter servers, a worker that is not the chief waits for the chief's checkpoint. All others stop
    at the step, and the chief saves it: workers that train in step stop together.

    Args:
        estimator: The Estimator that is trained.
        last_step: The step to stop at.
        wait_after_file_check_secs: How long to wait from one look for the checkpoint to the next, in seconds.

    Raises:
        ValueError: No step is given.

    Source: tensorflow_estimator/python/estimator/hooks/hooks.py, ``make_stop_at_checkpoint_step_hook``.
    """
    if estimator.config.is_chief or not estimator.config.num_ps_replicas:
        return StopAtStepHook(last_step=last_step)
    return StopAtCheckpointStepHook(estimator.model_dir, last_step, wait_after_file_check_secs)
