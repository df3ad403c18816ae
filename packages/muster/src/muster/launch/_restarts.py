"""Decide whether what has failed is started again."""

import dataclasses
from typing import Protocol

from muster.launch._events import TaskEnded

PAUSE_SECS = 1.0


@dataclasses.dataclass(frozen=True)
class Failure:
    """Something has failed, and could be started again.

    Args:
        ended: The end of the task that is the cause.
        alone: Whether that task alone would be started again, while the others go on; else the job.
    """

    ended: TaskEnded
    alone: bool


@dataclasses.dataclass(frozen=True)
class Decision:
    """Says whether there is a new start after a failure, and when.

    Args:
        again: Whether there is a new start.
        after_secs: How long to wait before it, in seconds.
        text: Which start it is, for the user.
    """

    again: bool
    after_secs: float = 0.0
    text: str = ""


class RestartPolicy(Protocol):
    """Decides about failures, as the failure policy of Ray Train's controller does."""

    def decide(self, failure: Failure) -> Decision:
        """Decide about a failure; asked once for each."""


@dataclasses.dataclass
class LimitedRestarts:
    """Starts again what has failed, up to a number of times in all, after a pause.

    Args:
        most: How many times, of the job or of one task.
        pause_secs: The pause, in seconds.
    """

    most: int
    pause_secs: float = PAUSE_SECS
    _made: int = dataclasses.field(default=0, init=False)

    def decide(self, failure: Failure) -> Decision:
        """Decide for a new start while some are left; one elsewhere, after an eviction, counts for none."""
        if failure.ended.evicted:
            return Decision(again=self.most > 0, after_secs=self.pause_secs, text="elsewhere")
        if self._made >= self.most:
            return Decision(again=False)
        self._made += 1
        return Decision(again=True, after_secs=self.pause_secs, text=f"restart {self._made} of {self.most}")
