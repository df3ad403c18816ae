"""A hook that traces single steps of a training, again and again."""

import logging
import os
from pathlib import Path

import jax

from muster._paths import local_path
from muster._remote import publish_soon, remote_url
from muster.estimator.hooks._base import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from muster.estimator.hooks._timer import SecondOrStepTimer
from muster.estimator.session._session import Session

_log = logging.getLogger(__name__)


class ProfilerHook(SessionRunHook):
    """Traces one step every N steps or seconds, on the host and on its devices.

    The trace of step 300 is the folder ``timeline-300``, which Perfetto (its ``perfetto_trace.json.gz``) and
    TensorBoard's profiler read. A step that is traced is waited for. ``RunConfig(profile_dir=…)`` traces
    twenty steps in a row, once, and says where their time goes.

    Source: tensorflow/python/training/basic_session_run_hooks.py, ``ProfilerHook``, which writes a file in
    Chrome's format, ``timeline-300.json``.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str | os.PathLike[str] = "",
        show_dataflow: bool = True,
        show_memory: bool = False,
    ) -> None:
        """Choose the period and the folder.

        Args:
            save_steps: Period in steps.
            save_secs: Period in seconds. Exactly one of the two.
            output_dir: The folder for the traces, or a URL; the working directory by default.
            show_dataflow: Accepted for TensorFlow's programs: JAX's traces have no such option.
            show_memory: Likewise.

        Raises:
            ValueError: Not exactly one period is given.
        """
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._output_dir = Path(local_path(output_dir, remote=True))
        self._tracing = False

    def after_create_session(self, session: Session, coord: object) -> None:
        """Count from the step that the session starts at."""
        self._timer.reset()
        self._timer.update_last_triggered_step(session.global_step)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Begin a trace if the next step is due."""
        session = run_context.session
        if session.steps_taken and self._timer.should_trigger_for_step(session.global_step + 1):
            jax.block_until_ready((session.state, session.outputs))
            folder = self._output_dir / f"timeline-{session.global_step + 1}"
            folder.mkdir(parents=True, exist_ok=True)
            jax.profiler.start_trace(folder, create_perfetto_trace=True)
            self._tracing = True
            session.resources.callback(self._stop)  # after an error
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Write the trace, if there is one."""
        session = run_context.session
        if not self._tracing:
            return
        step = session.global_step
        jax.block_until_ready((session.state, session.outputs))
        self._timer.update_last_triggered_step(step)
        folder = self._output_dir / f"timeline-{step}"
        _log.info("Saving timeline for %d into '%s'.", step, remote_url(str(folder)))
        self._stop()

    def steps_until_due(self, session: Session) -> int | None:
        """Return the steps left before the one that is traced; that one runs alone."""
        left = self._timer.steps_until_due(session.global_step)
        return left and max(1, left - 1)

    def _stop(self) -> None:
        if self._tracing:
            self._tracing = False
            jax.profiler.stop_trace()
            publish_soon(str(self._output_dir))
