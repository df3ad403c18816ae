"""The failures of an attempt to run a job: which of them is the cause, and which are its consequences."""

from collections.abc import Collection, Sequence

from muster.cluster import Task, TaskType
from muster.launch._events import Blame, TaskEnded

TRAINING = (TaskType.CHIEF, TaskType.WORKER)


class Failures:
    """Finds the cause among the tasks that have failed.

    It is the first failure that is no consequence of another, or else the first consequence. Failures that
    end nothing count last, even earlier ones, and those of an evaluator after those of workers.

    Args:
        serves: Whether the job has parameter servers, so that the others do without a worker.
        elastic: Whether those that train go on without one that has ended.
    """

    def __init__(self, *, serves: bool, elastic: bool) -> None:
        self._serves, self._elastic = serves, elastic
        # In the order of their ends; without tasks that the launcher's signals ended.
        self._ended: list[TaskEnded] = []

    def __bool__(self) -> bool:
        return bool(self._ended)

    def add(self, ended: TaskEnded) -> None:
        """Note a failure."""
        self._ended.append(ended)

    def forget(self, tasks: Collection[Task]) -> None:
        """Forget failures of tasks that are started again."""
        self._ended = [ended for ended in self._ended if ended.task not in tasks]

    def forget_trainers(self) -> None:
        """Forget failures of tasks that train: another one has come to the end."""
        self._ended = [ended for ended in self._ended if ended.task.type not in TRAINING]

    @property
    def has_workers(self) -> bool:
        """True if a worker is among them."""
        return any(ended.task.type == TaskType.WORKER for ended in self._ended)

    @property
    def blamed(self) -> set[Task]:
        """The tasks that those that failed have named as the reason."""
        return {ended.told.culprit for ended in self._ended if ended.told is not None}

    @property
    def cause(self) -> TaskEnded | None:
        """The failure that made the job fail; None if there is none."""
        return min(
            self._ended, key=lambda ended: (self._weight(ended.task), ended.is_consequence), default=None
        )

    @property
    def ending_cause(self) -> TaskEnded | None:
        """The failure that ends the attempt; None if the others do without all that failed."""
        cause = self.cause
        return None if cause is None or self._weight(cause.task) else cause

    def consequences(self, blame: Blame) -> Sequence[Task]:
        """Return the tasks that ended because of one, in the order of their ends."""
        return [ended.task for ended in self._ended if ended.is_consequence and ended.task != blame.task]

    def _weight(self, task: Task) -> int:
        """Return how easily the others do without a task; 0 if they do not."""
        if task.type == TaskType.EVALUATOR:
            return 2
        return int(
            (self._serves and task.type == TaskType.WORKER) or (self._elastic and task.type in TRAINING)
        )
