"""Workers of MultiWorkerMirroredStrategy in one process, to read input together: linked, and nothing else."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from test_link import together

from muster.cluster import Task
from muster.distribute import MultiWorkerMirroredStrategy, PerReplica, Strategy


def on_workers(workers: int, replicas: int, work: Callable[[Strategy], Any]) -> list[Any]:
    """What each worker makes of ``work(strategy)``, or the error of each."""
    tasks = tuple(Task("worker", index) for index in range(workers))

    def run(link: Any) -> Any:
        strategy = object.__new__(MultiWorkerMirroredStrategy)
        strategy._link, strategy._ending, strategy._roster = link, None, None
        strategy._tasks, strategy._task = tasks, tasks[link.rank]
        strategy._mesh = SimpleNamespace(local_devices=[None] * replicas, size=workers * replicas)
        return work(strategy)

    return together(workers, run)


def rows_of(batch: Any) -> tuple[bool, list[Any]]:
    """Whether a step's batch is a whole one, and the rows of each replica of this process."""
    if not isinstance(batch, PerReplica):
        return False, [np.atleast_1d(batch).tolist()]
    return batch.whole, [np.atleast_1d(rows).tolist() for rows in batch.values]
