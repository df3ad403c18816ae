"""Reports the progress of a task to the others of its job and to its launcher."""

import collections
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping

from muster.cluster.roster import TaskState, WorkTotals
from muster.distribute.workers._workers import Exchanged

_PERIOD_SECS = 1.0
# A speed that is no step's is the mean over the last so many seconds.
_WINDOW_SECS = 5.0


class ProgressReporter:
    """Reports state, step, speed, results, and what the time is spent on, once a second.

    Times and speeds are those of training: they stand still while the task evaluates or saves, and the first
    step, which compiles, is left out.

    Args:
        report: Takes the fields of ``muster.cluster.Progress`` by name.
        exchanged: What the task exchanges with others.
    """

    def __init__(self, report: Callable[..., None], exchanged: Exchanged | None = None) -> None:
        self._report = report
        self._exchanged = Exchanged() if exchanged is None else exchanged
        self._state: TaskState | None = None
        self._reported = WorkTotals()
        self._reported_at = 0.0
        self._steps = 0  # global ones, since the last report that had a speed
        # Plain numbers, for a step of a small model takes 100 microseconds: the last step, and the sums.
        self._runs = self._began = False  # whether there was a step in this lap of training, and in any
        self._at = self._wait = self._exchanged_secs = 0.0
        self._step = self._taken = self._nbytes = 0
        self._sum_taken = self._sum_nbytes = 0
        self._sum_secs = self._sum_wait = self._sum_exchanged = self._sum_squares = 0.0

    def enter(self, state: TaskState) -> None:
        """Report what this task does from here on."""
        if state is self._state:
            return
        self._state = state
        self._report(state=state)
        self._runs = False
        if state is TaskState.TRAINING and self._began:  # it goes on from where it was
            self._begin_lap(self._step, self._taken, self._wait)

    def after_steps(
        self,
        state: TaskState,
        step: int,
        taken: int,
        input_wait_secs: float,
        results: Callable[[], Mapping[str, float]],
    ) -> None:
        """Report if it is due.

        Args:
            state: What this task does: only training has a speed and results.
            step: The last step.
            taken: How many steps this task has taken itself: beside parameter servers others make some, too.
            input_wait_secs: How long steps have waited for their input so far, in seconds.
            results: Returns the loss of the last step, and metrics, by name, waiting for them if need be;
                called only if it is due.
        """
        if state is not TaskState.TRAINING:
            self.enter(state)
            return
        if state is not self._state:  # the first step compiles, and one after an evaluation may
            self._state = state
            self._report(state=state)
            self._runs = False
        if not self._runs:
            self._begin_lap(step, taken, input_wait_secs)
            self._reported_at = self._reported_at or self._at
            return
        now, exchanged = time.monotonic(), self._exchanged
        secs, exchanged_secs = now - self._at, exchanged.secs - self._exchanged_secs
        new = taken - self._taken
        self._sum_secs += secs
        self._sum_wait += input_wait_secs - self._wait
        self._sum_exchanged += exchanged_secs
        self._sum_taken += new
        self._sum_nbytes += exchanged.nbytes - self._nbytes
        self._sum_squares += (secs - exchanged_secs) ** 2 / (new or 1)
        self._steps += step - self._step
        self._at, self._step, self._taken, self._wait = now, step, taken, input_wait_secs
        self._exchanged_secs, self._nbytes = exchanged.secs, exchanged.nbytes
        if now - self._reported_at >= _PERIOD_SECS:
            self._reported_at = now
            self._report(step=step, **_named(results()), **self._since_reported())

    def finish(self, step: int, results: Mapping[str, float]) -> None:
        """Report the end of training, whenever the last report was.

        Args:
            step: The last step.
            results: Its loss, and metrics, by name.
        """
        early = self._since_reported() if self._reported == WorkTotals() else {"totals": self._totals}
        self._report(step=step, **_named(results), **early)

    def _begin_lap(self, step: int, taken: int, input_wait_secs: float) -> None:
        """Count from here on."""
        exchanged = self._exchanged
        self._runs = self._began = True
        self._at, self._step, self._taken, self._wait = time.monotonic(), step, taken, input_wait_secs
        self._exchanged_secs, self._nbytes = exchanged.secs, exchanged.nbytes

    @property
    def _totals(self) -> WorkTotals:
        return WorkTotals(
            steps=self._sum_taken,
            compute=max(0.0, self._sum_secs - self._sum_wait - self._sum_exchanged),
            input=self._sum_wait,
            communication=self._sum_exchanged,
            nbytes=self._sum_nbytes,
            squares=self._sum_squares,
        )

    def _since_reported(self) -> dict[str, object]:
        """Return the speed and the waits since the last report that had some, and all totals."""
        totals = self._totals
        new, self._reported = totals.since(self._reported), totals
        steps, self._steps = self._steps, 0
        if new.secs <= 0:
            return {"totals": totals}
        return {
            "steps_per_sec": steps / new.secs,
            "input_wait": min(1.0, new.input / new.secs),
            "totals": totals,
        }


class LoopProgress:
    """Reports the steps of a loop of the user's: each batch that it draws ends the step before.

    Args:
        report: Takes the fields of ``muster.cluster.Progress`` by name.
        exchanged: What the task exchanges with others.
    """

    def __init__(self, report: Callable[..., None], exchanged: Exchanged) -> None:
        self._progress = ProgressReporter(report, exchanged)
        self._exchanged = exchanged
        self._drawn = 0
        self._input_wait_secs = 0.0

    @contextlib.contextmanager
    def drawing(self) -> Iterator[None]:
        """Measure how long a batch is waited for, without what workers exchange to agree on it."""
        if self._drawn:
            self._progress.after_steps(
                TaskState.TRAINING, self._drawn, self._drawn, self._input_wait_secs, dict[str, float]
            )
        began, exchanged = time.monotonic(), self._exchanged.secs
        yield
        self._input_wait_secs += time.monotonic() - began - (self._exchanged.secs - exchanged)

    def drew(self) -> None:
        """Note that a batch was drawn."""
        self._drawn += 1

    def end_pass(self) -> None:
        """Report the last step of a pass over the data.

        What comes before the next one is not training: the loop may evaluate, or the program may be over.
        Others have the patience with this task that they have before its first step.
        """
        if self._drawn:
            self._progress.finish(self._drawn, {})
            self._progress.enter(TaskState.STARTING)


def _named(results: Mapping[str, float]) -> dict[str, object]:
    """Return results as fields: the loss, and the metrics, which stay as they are if there are none."""
    metrics = {name: value for name, value in results.items() if name != "loss"}
    return {"loss": results.get("loss"), "metrics": metrics or None}


class SlidingRate:
    """How often something happens in a second, over the last few seconds."""

    def __init__(self) -> None:
        self._counts: collections.deque[tuple[float, int]] = collections.deque()

    def __call__(self, count: int) -> float | None:
        """Return the rate.

        Args:
            count: How often it has happened so far.

        Returns:
            None before it has been asked for twice.
        """
        now = time.monotonic()
        counts = self._counts
        counts.append((now, count))
        while len(counts) > 2 and now - counts[1][0] >= _WINDOW_SECS:
            counts.popleft()
        began, before = counts[0]
        return (count - before) / (now - began) if now > began else None
