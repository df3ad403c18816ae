"""A hook that tells the other tasks of a job, and its launcher, how far training is."""

from collections.abc import Callable

from muster.cluster.roster import TaskState
from muster.distribute.workers import ProgressReporter
from muster.estimator.hooks._base import SessionRunContext, SessionRunHook, SessionRunValues
from muster.estimator.session._session import Coordinator, Session


class ProgressReport(SessionRunHook):
    """Reports step, speed, loss and the share of time that is spent on input, once a second.

    Args:
        report: Takes the fields of ``muster.cluster.Progress`` by name.
    """

    def __init__(self, report: Callable[..., None]) -> None:
        self._report = report
        self._progress = ProgressReporter(report)

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Report the step that training begins at."""
        self._report(step=session.global_step)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Report if it is due; after the first step, which compiles, that this task trains."""
        session = run_context.session
        self._progress.after_steps(
            TaskState.TRAINING,
            session.global_step,
            session.input_wait_secs,
            lambda: float(session.run("loss")),
        )

    def steps_until_due(self, session: Session) -> int | None:
        """Return None: the period is in seconds."""
        return None
