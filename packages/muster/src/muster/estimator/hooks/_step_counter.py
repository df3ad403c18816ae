"""A hook that measures steps per second."""

import logging
import os

from muster._paths import local_path
from muster.estimator.hooks._base import SessionRunContext, SessionRunHook, SessionRunValues
from muster.estimator.hooks._summary_saver import SummaryWriter, open_writer
from muster.estimator.hooks._timer import SecondOrStepTimer
from muster.estimator.session._session import Coordinator, Session

_log = logging.getLogger(__name__)


class StepCounterHook(SessionRunHook):
    """Logs and records the steps per second, and the share of time that is spent on input.

    The log says ``global_step/sec: 123.4``. The summaries are ``global_step/sec`` and ``input_wait``, the
    share (0 to 1) of the time since the last report that runs waited for their batches. Steps that take no
    measurable time are not reported; TensorFlow reports an infinite rate.

    Source: tensorflow/python/training/basic_session_run_hooks.py, ``StepCounterHook``; ``input_wait`` is an
    addition.
    """

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: str | os.PathLike[str] | None = None,
        summary_writer: SummaryWriter | None = None,
    ) -> None:
        """Choose the period and the writer.

        Args:
            every_n_steps: Period in steps.
            every_n_secs: Period in seconds. Exactly one of the two.
            output_dir: The folder for a new event file.
            summary_writer: Takes the summaries instead.

        Raises:
            ValueError: Not exactly one period is given.
        """
        if (every_n_steps is None) == (every_n_secs is None):
            raise ValueError(
                "exactly one of every_n_steps and every_n_secs should be provided. "
                f"Got {every_n_steps=} and {every_n_secs=}."
            )
        self._timer = SecondOrStepTimer(every_secs=every_n_secs, every_steps=every_n_steps)
        self._output_dir = None if output_dir is None else local_path(output_dir)
        self._summary_writer = summary_writer
        self._writer: SummaryWriter | None = None
        self._waited_secs = 0.0

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Measure from the first run of this session."""
        self._timer.reset()
        self._writer = open_writer(session, self._summary_writer, self._output_dir)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Report if it is due."""
        session = run_context.session
        step = session.global_step
        if not self._timer.should_trigger_for_step(step):
            return
        elapsed_secs, elapsed_steps = self._timer.update_last_triggered_step(step)
        waited_secs = session.input_wait_secs - self._waited_secs
        self._waited_secs = session.input_wait_secs
        if not elapsed_secs or elapsed_steps is None:
            return
        rate = elapsed_steps / elapsed_secs
        _log.info("global_step/sec: %g", rate)
        if self._writer is not None:
            self._writer.add_scalars(
                {"global_step/sec": rate, "input_wait": waited_secs / elapsed_secs}, step
            )

    def steps_until_due(self, session: Session) -> int | None:
        """Return the steps left of the period."""
        return self._timer.steps_until_due(session.global_step)
