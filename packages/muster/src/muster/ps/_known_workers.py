"""The workers that a parameter server knows: who they are, what they last sent, who stands still."""

import dataclasses
import logging
import math
from collections.abc import Callable, Collection, Iterable, Sequence

from muster.ps._flat_layout import AskedRows
from muster.ps._messages import Caller
from muster.ps._replies import RefusedError

_log = logging.getLogger(__name__)

# How long a worker may be silent with a step that others wait for, in seconds.
STALL_SECS = 30.0


@dataclasses.dataclass
class Worker:
    """One worker, as its server sees it."""

    caller: Caller  # by its last connection
    heard: float  # when, in seconds
    connected: bool = True
    counted: bool = True  # whether its last push was applied
    version: int | None = None  # of the values that were sent to it last
    silent: bool = False  # whether that was said
    asked: Sequence[AskedRows] = ()  # the rows that its push asks for

    @property
    def run(self) -> str:
        """The random id of its process."""
        return self.caller.run

    @property
    def source(self) -> str:
        """The task and the random id of its process, which number its pushes."""
        return f"{self.caller.task} {self.caller.run}"


class KnownWorkers(dict[str, Worker]):
    """The workers that have joined, by task. Times are in seconds, of any clock that does not go back."""

    def hear(self, caller: Caller, now: float) -> None:
        """Note that a worker sends something now; raises RefusedError if another process is that task."""
        worker = self[caller.task]
        if worker.run != caller.run:
            raise RefusedError(f"another process has joined as {caller.task} since. Run each task once")
        worker.heard = now
        if worker.silent:
            worker.silent = False
            _log.warning("%s is back.", caller.task)

    def name_silent(self, now: float, waits: Callable[[Caller], bool]) -> None:
        """Name workers that stand still, but for those that wait for the server."""
        for task, worker in self.items():
            idle = now - worker.heard
            if worker.connected and not worker.silent and not waits(worker.caller) and idle > STALL_SECS:
                worker.silent = True
                _log.warning(
                    "%s has sent nothing for %.0f s: it may hang, or be cut off. The others go on.",
                    task,
                    idle,
                )

    def have_waited(self, callers: Collection[Caller], now: float) -> bool:
        """Return whether one of some callers has waited for longer than a step may take."""
        # The others may have waited for less long than that: only the longest wait counts.
        return bool(callers) and now - min(self[caller.task].heard for caller in callers) > STALL_SECS

    def stalled(self, holders: Iterable[str], now: float) -> list[Caller]:
        """Return those of some tasks that were not heard of for long, and name them."""
        found = []
        for task in holders:
            worker = self.get(task) or Worker(Caller(task, ""), -math.inf)  # of before a restart
            if now - worker.heard > STALL_SECS:
                _log.warning(
                    "%s has not finished its step for %.0f s: those who wait for it go on without it.",
                    task,
                    STALL_SECS,
                )
                found.append(worker.caller)
        return found
