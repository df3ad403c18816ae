"""Reports the progress of a task to the others of its job and to its launcher."""

import time
from collections.abc import Callable

from muster.cluster.roster import TaskState

_PERIOD_SECS = 1.0


class ProgressReporter:
    """Reports state, step, speed, loss and the share of time that is spent on input, once a second.

    Args:
        report: Takes the fields of ``muster.cluster.Progress`` by name.
    """

    def __init__(self, report: Callable[..., None]) -> None:
        self._report = report
        self._state: TaskState | None = None
        self._step = 0
        self._has_speed = False
        self._reported_at = self._input_wait_secs = 0.0

    def enter(self, state: TaskState) -> None:
        """Report what this task does from here on."""
        self._state = state
        self._report(state=state)

    def after_steps(
        self, state: TaskState, step: int, input_wait_secs: float, loss: Callable[[], float | None]
    ) -> None:
        """Report if it is due.

        Args:
            state: What this task does: only training has a speed and a loss.
            step: The last step.
            input_wait_secs: How long steps have waited for their input so far, in seconds.
            loss: Returns the loss of the last step, waiting for it if need be; called only if it is due.
        """
        now = time.monotonic()
        if state is not self._state:  # the first step compiles
            self.enter(state)
        elif (secs := now - self._reported_at) < _PERIOD_SECS:
            return
        elif state is TaskState.TRAINING:
            self._has_speed = True
            self._report(
                step=step,
                loss=loss(),
                steps_per_sec=(step - self._step) / secs,
                input_wait=min(1.0, (input_wait_secs - self._input_wait_secs) / secs),
            )
        self._reported_at, self._step, self._input_wait_secs = now, step, input_wait_secs

    def finish(self, step: int, loss: float | None) -> None:
        """Report the end of training, whenever the last report was.

        Args:
            step: The last step.
            loss: Its loss.
        """
        secs = time.monotonic() - self._reported_at
        early = (step - self._step) / secs if not self._has_speed and secs > 0 else None
        self._report(step=step, loss=loss, steps_per_sec=early)
