"""Loops of steps of workers who come and go: what the workers know of a loop, and it of them."""

import secrets
from typing import Any, Protocol

from muster.cluster.roster import Roster
from muster.distribute.workers._workers import HostArray, SingleWorker, Workers


class WorkersChangedError(Exception):
    """The workers have changed in the middle of a step, which is to be made again."""


class ReplicatedLoop(Protocol):
    """A loop of steps that all workers make: what a worker needs to know who joins them."""

    def steps_taken(self) -> int:
        """Return how many steps the state has; the same number on workers with the same state."""

    def give(self) -> tuple[Any, list[HostArray]] | None:
        """Return what a new worker needs before the next step, JSON and arrays; None if none can come."""


class LoopWorkers(SingleWorker):
    """A single worker with all virtual replicas: what a loop of the user's sees of workers that come and go.

    So its values are those of all replicas on every worker, and nothing is lost with one of them.

    Args:
        workers: The workers, who divide the work of its steps.
        roster: Takes their progress.
        replicas: The number of virtual replicas.
    """

    def __init__(self, workers: Workers, roster: Roster, replicas: int) -> None:
        super().__init__(roster, workers.exchanged, replicas)
        self._workers = workers

    @property
    def is_chief(self) -> bool:
        return self._workers.is_chief

    def common_seed(self) -> int | None:
        return int(self._workers.all_gather_object(secrets.randbits(31))[0])


class LoopSteps:
    """The steps of loops of the user's, as a `ReplicatedLoop`, which nobody can join."""

    count = 0

    def steps_taken(self) -> int:
        return self.count

    def give(self) -> None:
        return None
