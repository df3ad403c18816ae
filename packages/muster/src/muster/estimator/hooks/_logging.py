"""A hook that logs values of the step."""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from muster.estimator.hooks._base import SessionRunContext, SessionRunHook, SessionRunValues
from muster.estimator.hooks._timer import SecondOrStepTimer
from muster.estimator.session._fetches import Tensors, as_named_fetches
from muster.estimator.session._session import Coordinator, Session

_log = logging.getLogger(__name__)


class LoggingTensorHook(SessionRunHook):
    """Logs values every N steps or seconds, or at the end: ``loss = 0.5, step = 100 (1.234 sec)``.

    At the end it logs the values of the last step; TensorFlow computes them anew from the final variables.
    Nothing is read, and nothing waits for the device, in runs that do not log.

    Source: tensorflow/python/training/basic_session_run_hooks.py, ``LoggingTensorHook``.

    Example:
        ```python
        hook = muster.estimator.LoggingTensorHook(["loss"], every_n_iter=100)
        ```
    """

    def __init__(
        self,
        tensors: Tensors,
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[dict[str, Any]], str] | None = None,
    ) -> None:
        """Choose the values and the period.

        Args:
            tensors: Tag -> name or handle, logged in the order of the tags; or a list, logged in its order.
            every_n_iter: Period in steps.
            every_n_secs: Period in seconds. Not both.
            at_end: Whether to log once more at a clean stop.
            formatter: Makes the line from tag -> value; the line then has no time in it.

        Raises:
            ValueError: Neither ``at_end`` nor exactly one period is given, or a period is not positive.
        """
        only_at_end = at_end and every_n_iter is None and every_n_secs is None
        if not only_at_end and (every_n_iter is None) == (every_n_secs is None):
            raise ValueError(
                "either at_end and/or exactly one of every_n_iter and every_n_secs must be provided. "
                f"Got {every_n_iter=}, {every_n_secs=}, {at_end=}."
            )
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}. It must be positive.")
        self._fetches = as_named_fetches(tensors)
        self._formatter = formatter
        self._at_end = at_end
        # With `only_at_end` nothing asks this timer whether something is due; it only measures.
        self._timer = SecondOrStepTimer(
            every_secs=every_n_secs, every_steps=1 if only_at_end else every_n_iter
        )
        self._only_at_end = only_at_end
        self._first_step = 0

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Count steps from zero."""
        session.require(self._fetches)
        self._timer.reset()
        self._first_step = session.steps_taken + 1

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Log the values if they are due."""
        taken = run_context.session.steps_taken - self._first_step
        if not self._only_at_end and self._timer.should_trigger_for_step(taken):
            self._log(run_context.session)

    def steps_until_due(self, session: Session) -> int | None:
        """Return the steps left of the period."""
        if self._only_at_end:
            return None
        return self._timer.steps_until_due(session.steps_taken - self._first_step)

    def end(self, session: Session) -> None:
        """Log the last values, if asked to."""
        if self._at_end and session.outputs:
            self._log(session)

    def _log(self, session: Session) -> None:
        values = session.run(self._fetches)
        elapsed_secs, _ = self._timer.update_last_triggered_step(session.steps_taken - self._first_step)
        with np.printoptions(suppress=True):
            if self._formatter is not None:
                _log.info("%s", self._formatter(values))
                return
            line = ", ".join(f"{tag} = {value!s}" for tag, value in values.items())
        _log.info("%s", line if elapsed_secs is None else f"{line} ({elapsed_secs:.3f} sec)")
