"""Hooks that stop training after a number of steps, or evaluation after a number of batches."""

import logging
import math

from muster._errors import TraceError
from muster.estimator.hooks._base import SessionRunContext, SessionRunHook, SessionRunValues
from muster.estimator.session._session import Coordinator, Session

_log = logging.getLogger(__name__)


class StopAtStepHook(SessionRunHook):
    """Stops once the global step reaches a number.

    The hook checks the step after each run, as in TensorFlow, so that a session that starts at or past that
    step still runs once. Estimator skips training that has reached ``max_steps``. A model_fn that never
    advances the global step would train for ever: it is an error after the number of steps that were left.

    Source: tensorflow/python/training/basic_session_run_hooks.py, ``StopAtStepHook``.
    """

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        """Choose the end.

        Args:
            num_steps: Steps from where the session starts.
            last_step: The global step to stop at. Exactly one of the two.

        Raises:
            ValueError: Not exactly one of the two is given.
        """
        if num_steps is None and last_step is None:
            raise ValueError("One of num_steps or last_step must be specified.")
        if num_steps is not None and last_step is not None:
            raise ValueError(
                "Only one of num_steps or last_step can be specified. "
                f"Got {num_steps=} and {last_step=}: leave one of them None."
            )
        self._num_steps = None if num_steps is None else math.ceil(num_steps)
        self._last_step = None if last_step is None else math.ceil(last_step)

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Count from the step that the session starts at."""
        self._first_step = session.global_step
        if self._num_steps is not None and self._last_step is None:
            self._last_step = session.global_step + self._num_steps

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Stop if the step is reached.

        Raises:
            TraceError: It would never be reached.
        """
        session = run_context.session
        if self._last_step is None:
            return
        if session.global_step >= self._last_step:
            run_context.request_stop()
        elif session.stands_still and session.steps_taken >= self._last_step - self._first_step:
            raise TraceError(
                f"Training was to end at global step {self._last_step}. After {session.steps_taken} steps "
                f"the global step is still {session.global_step}: the model_fn never advances it. Pass "
                "global_step=muster.get_or_create_global_step() to minimize, which is get_global_step() in "
                "programs for TensorFlow 1."
            )

    def steps_until_due(self, session: Session) -> int | None:
        """Return the steps left to the last one."""
        return None if self._last_step is None else max(1, self._last_step - session.global_step)


class StopAfterNEvalsHook(SessionRunHook):
    """Ends an evaluation after a number of batches, and logs its progress: ``Evaluation [10/100]``.

    It logs every batch of fewer than 20, else ten times.

    Source: tensorflow/python/training/evaluation.py, ``_StopAfterNEvalsHook``.
    """

    def __init__(self, num_evals: int | None, log_progress: bool = True) -> None:
        """Choose the end.

        Args:
            num_evals: How many batches to evaluate; None for all.
            log_progress: Whether to log.
        """
        self._num_evals = num_evals
        self._log_progress = log_progress
        self._log_every = 1 if num_evals is None or num_evals < 20 else num_evals // 10
        self._done = 0

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Count from zero: a hook may be used in more than one evaluation."""
        self._done = 0

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Count, log and stop."""
        self._done += 1
        is_last = self._num_evals is not None and self._done >= self._num_evals
        if self._log_progress and (is_last or self._done % self._log_every == 0):
            of_all = "" if self._num_evals is None else f"/{self._num_evals}"
            _log.info("Evaluation [%d%s]", self._done, of_all)
        if is_last:
            run_context.request_stop()
