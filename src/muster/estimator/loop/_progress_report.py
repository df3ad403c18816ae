"""Telling the other tasks of a job, and its launcher, how far training is."""

from collections.abc import Callable
from typing import Any

from muster.cluster import TaskState
from muster.estimator.hooks import (
    SecondOrStepTimer,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from muster.estimator.session._session import Coordinator, Session


class ProgressReport(SessionRunHook):
    """Reports step, speed, loss and the share of time that goes into input, once a second.

    Args:
        report: Takes the fields of ``muster.cluster.Progress`` by name.
    """

    def __init__(self, report: Callable[..., None]) -> None:
        self._report = report
        self._timer = SecondOrStepTimer(every_secs=1.0)
        self._waited_secs = 0.0
        self._training = False

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Say where training begins."""
        self._timer.reset()
        self._waited_secs = session.input_wait_secs
        self._training = False
        self._report(step=session.global_step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Report if it is due; after the first step, which compiles, that this task trains."""
        session = run_context.session
        if not self._training:
            self._training = True
            self._report(state=TaskState.TRAINING)
        if not self._timer.should_trigger_for_step(session.global_step):
            return
        secs, steps = self._timer.update_last_triggered_step(session.global_step)
        fields: dict[str, Any] = {"step": session.global_step, "loss": float(session.run("loss"))}
        if secs and steps is not None:
            fields["steps_per_sec"] = steps / secs
            fields["input_wait"] = min(1.0, (session.input_wait_secs - self._waited_secs) / secs)
        self._waited_secs = session.input_wait_secs
        self._report(**fields)

    def steps_until_due(self, session: Session) -> int | None:
        """After any run: time says when."""
        return None
