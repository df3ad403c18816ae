"""Workers of MultiWorkerMirroredStrategy in one process, to read input together: linked, and nothing else."""

from collections.abc import Callable
from typing import Any

import numpy as np

from linked import together
from muster.distribute import PerReplica, Strategy
from muster.distribute.engine._device import DeviceEngine
from muster.distribute.engine._placement import Placement


def on_workers(workers: int, replicas: int, work: Callable[[Strategy], Any]) -> list[Any]:
    """What each worker makes of ``work(strategy)``, or the error of each."""

    def run(link: Any) -> Any:
        return work(Strategy(Placement(None), DeviceEngine(), link, replicas))

    return together(workers, run)


def rows_of(batch: Any) -> tuple[bool, list[Any]]:
    """Whether a step's batch is a whole one, and the rows of each replica of this process."""
    if not isinstance(batch, PerReplica):
        return False, [np.atleast_1d(batch).tolist()]
    return batch.replicated, [np.atleast_1d(rows).tolist() for rows in batch.values]
