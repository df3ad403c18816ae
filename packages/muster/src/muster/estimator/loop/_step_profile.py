"""Profile some steps: write a trace, and a table of the time for computing, input and communication."""

import dataclasses
import logging
from pathlib import Path

import jax

from muster._remote import publish_soon, remote_url
from muster.distribute.workers import Exchanged
from muster.estimator.hooks._base import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from muster.estimator.session import clock
from muster.estimator.session._session import Session

_log = logging.getLogger(__name__)

SUMMARY = "profile.txt"
# The first steps also compile and warm up.
_SKIPPED_RUNS = 10
_PROFILED_RUNS = 20


@dataclasses.dataclass(kw_only=True)
class StepTimes:
    """The seconds that some steps took together, by what they were spent on.

    Attributes:
        steps: How many steps were measured.
        compute: Compiled programs and their dispatch; XLA's own collectives are part of it.
        input_wait: Waiting for batches.
        communication: Exchanging values with other tasks, agreeing with them and waiting for them, outside of
            compiled programs.
        host: Everything else: hooks, and the loop.
    """

    steps: int = 0
    compute: float = 0.0
    input_wait: float = 0.0
    communication: float = 0.0
    host: float = 0.0

    def __str__(self) -> str:
        """Return the seconds as a table."""
        parts = dataclasses.asdict(self)
        del parts["steps"]
        total = sum(parts.values())
        lines = [f"{self.steps} steps, {1e3 * total / self.steps:.3f} ms each:"]
        for name, secs in parts.items():
            lines.append(
                f"{name.replace('_', ' '):<13} {1e3 * secs / self.steps:9.3f} ms {secs / total:6.1%}"
            )
        return "\n  ".join(lines)


class StepProfile(SessionRunHook):
    """Traces some steps once they are warmed up, and writes where their time goes.

    It waits for each of them, so that they run one after the other. It must be the first hook.

    Args:
        folder: The folder for the table and the trace, which TensorBoard's profiler and Perfetto read.
        exchanged: What this process exchanges with others.
    """

    def __init__(self, folder: Path, exchanged: Exchanged) -> None:
        self._folder = folder
        self._exchanged = exchanged
        self._runs = 0
        self._tracing = False
        self._times = StepTimes()
        self._began = self._ended = 0.0
        self._before = (0.0, 0.0, 0)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Begin the trace if it is time to, and measure this run."""
        session = run_context.session
        if self._runs == _SKIPPED_RUNS:
            self._folder.mkdir(parents=True, exist_ok=True)
            jax.block_until_ready(session.state)
            jax.profiler.start_trace(self._folder, create_perfetto_trace=True)
            session.resources.callback(self._stop)
            self._tracing, self._ended = True, clock.now()
        if self._tracing:
            self._began = clock.now()
            self._times.host += self._began - self._ended
            self._before = (session.input_wait_secs, self._exchanged.secs, session.steps_taken)
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Add the times of this run."""
        session, times = run_context.session, self._times
        if self._tracing:
            jax.block_until_ready((session.state, session.outputs))
            self._ended = clock.now()
            input_wait, communication, steps = self._before
            input_wait = session.input_wait_secs - input_wait
            communication = self._exchanged.secs - communication
            times.steps += session.steps_taken - steps
            times.input_wait += input_wait
            times.communication += communication
            times.compute += self._ended - self._began - input_wait - communication
        self._runs += 1
        if self._runs == _SKIPPED_RUNS + _PROFILED_RUNS:
            self._stop()

    def steps_until_due(self, session: Session) -> int | None:
        """Return None: it may be called after any run."""
        return None

    def _stop(self) -> None:
        """End the trace, and write the table."""
        if not self._tracing:
            return
        self._tracing = False
        jax.profiler.stop_trace()
        if self._times.steps:
            (self._folder / SUMMARY).write_text(f"{self._times}\n")
            _log.info("Wrote a trace into %s: %s", remote_url(str(self._folder)), self._times)
        publish_soon(str(self._folder))
