"""Limit each worker's lead over the slowest (stale synchronous parallel)."""


class Leads:
    """Counts the steps of each worker, and says who may make another.

    Only workers that are present count: those that make a step, or ask for one. A worker that comes, or comes
    back, starts with as many steps as the slowest of the others has made, if it has not made more.
    """

    def __init__(self) -> None:
        self._made: dict[str, int] = {}
        self._present: set[str] = set()

    def may_begin(self, task: str, most: int) -> bool:
        """Return whether a worker, which is present from now on, may begin a step.

        Args:
            task: The worker.
            most: How many steps it may have made more than the slowest that is present, after this one.
        """
        if task not in self._present:
            self._made[task] = max(self._made.get(task, 0), self._slowest())
            self._present.add(task)
        return self._made[task] - self._slowest() < most

    def leave(self, task: str) -> None:
        """Let the others go on without a worker."""
        self._present.discard(task)

    def count(self, task: str) -> None:
        """Count a step that a worker has made."""
        self._made[task] = self._made.get(task, 0) + 1

    def _slowest(self) -> int:
        return min((self._made[task] for task in self._present), default=0)
