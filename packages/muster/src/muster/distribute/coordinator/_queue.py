"""The queue of closures: assigns them to workers and keeps their first error; no threads or sockets."""

import collections
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

Work = TypeVar("Work")


class ClosureQueue(Generic[Work]):
    """The closures of a coordinator: those that wait, and those that each worker has, to run them in turn.

    A closure that fails leaves its error here, until somebody asks; the others go on. Whoever asks cancels
    what waits, and those that run: a worker stops at a cancelled one, or ends it. When none runs any more,
    the error is raised, once, and new closures are welcome.

    Args:
        limit: How many closures may wait.
        max_staleness: How many closures may begin while another one runs; None for any number.

    Attributes:
        generation: Changes when a worker must not use values any more that it has read before.
        cancelling: Whether those that run are to stop.
    """

    def __init__(self, limit: int, max_staleness: int | None = None) -> None:
        self._limit = limit
        self._max_staleness = max_staleness
        self._begun = 0
        self._begun_before: dict[int, int] = {}  # of each that runs: how many had begun
        self._waiting: collections.deque[int] = collections.deque()
        self._running: dict[Hashable, list[int]] = {}
        self._work: dict[int, Work] = {}  # of those that wait or run
        self._last = 0
        self._error: BaseException | None = None
        self.generation = 0
        self.cancelling = False
        self._watermark = 1
        self._ended: set[int] = set()  # above the watermark

    @property
    def full(self) -> bool:
        """True if no further closure may be queued."""
        return len(self._waiting) >= self._limit

    @property
    def waiting(self) -> int:
        """The number of waiting closures."""
        return len(self._waiting)

    @property
    def unfinished(self) -> int:
        """The number of closures that wait or run."""
        return len(self._work)

    @property
    def idle(self) -> bool:
        """True if no closure waits or runs."""
        return not self._work

    @property
    def failed(self) -> bool:
        """True if there is an error that was not raised yet."""
        return self._error is not None

    @property
    def watermark(self) -> int:
        """The number below which all closures have ended."""
        return self._watermark

    def put(self, work: Work) -> int:
        """Add a closure at the end, and return its number, from 1."""
        self._last += 1
        self._work[self._last] = work
        self._waiting.append(self._last)
        return self._last

    def waiting_work(self) -> list[tuple[int, Work]]:
        """Return the closures that wait, with their numbers, in order."""
        return [(number, self._work[number]) for number in self._waiting]

    def work(self, number: int) -> Work:
        """Return a closure that waits or runs."""
        return self._work[number]

    def fail_waiting(self, number: int, error: BaseException) -> Work:
        """Note that a closure cannot be run."""
        self._waiting.remove(number)
        if self._error is None and not self.cancelling:
            self._error = error
        return self._close(number)

    def take(
        self, worker: Hashable, may_run: Callable[[Work], bool] | None = None
    ) -> tuple[int, Work] | None:
        """Give a worker the next closure that it may run, with its number; None if there is none for it now.

        Under ``max_staleness`` a worker has one at a time: it would begin later than it is counted here.
        """
        if self.cancelling or not self._waiting:
            return None
        if self._max_staleness is not None:
            if self._begun - min(self._begun_before.values(), default=self._begun) > self._max_staleness:
                return None
            if worker in self._running:
                return None
        number = self._waiting[0]
        if may_run is not None:
            found = next((each for each in self._waiting if may_run(self._work[each])), None)
            if found is None:
                return None
            number = found
        if self._max_staleness is not None:
            self.generation += 1  # values that came with an earlier push may lack what others have pushed
            self._begun_before[number] = self._begun
            self._begun += 1
        self._waiting.remove(number)
        self._running.setdefault(worker, []).append(number)
        return number, self._work[number]

    def end(self, worker: Hashable, number: int, error: BaseException | None = None) -> Work:
        """Note that a worker has ended a closure, with an error or not, or stopped at a cancelled one."""
        running = self._running[worker]
        running.remove(number)
        if not running:
            del self._running[worker]
        if error is not None and self._error is None and not self.cancelling:
            self._error = error
        return self._close(number)

    def lose(self, worker: Hashable) -> list[Work]:
        """Let what a lost worker had be the next to run; return those that are cancelled instead."""
        return self.give_back(worker, list(self._running.get(worker, ())))

    def give_back(self, worker: Hashable, numbers: Sequence[int]) -> list[Work]:
        """Let closures that a worker has not ended be the next to run, as `lose` does."""
        left = [number for number in self._running.pop(worker, ()) if number not in numbers]
        if left:
            self._running[worker] = left
        if self.cancelling:
            return [self._close(number) for number in numbers]
        for number in numbers:
            self._begun_before.pop(number, None)
        self._waiting.extendleft(reversed(numbers))
        return []

    def cancel(self) -> list[Work]:
        """Cancel everything: return what has waited. What runs is to stop."""
        self.cancelling = bool(self._running)
        cancelled = [self._close(number) for number in self._waiting]
        self._waiting.clear()
        return cancelled

    def taken_error(self) -> BaseException | None:
        """Return the error that nobody has heard of yet, which is forgotten here."""
        error, self._error = self._error, None
        return error

    def renew(self) -> None:
        """Let workers read all values anew for closures that they begin from now on."""
        self.generation += 1

    def _close(self, number: int) -> Work:
        self._begun_before.pop(number, None)
        self._ended.add(number)
        while self._watermark in self._ended:
            self._ended.remove(self._watermark)
            self._watermark += 1
        if self.cancelling and not self._running:
            self.cancelling = False
        return self._work.pop(number)
