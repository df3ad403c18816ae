"""What a job has measured of itself, as a prediction needs it."""

import dataclasses
import math
import statistics
from collections.abc import Sequence

from muster.cluster import TaskType
from muster.cluster.roster import WorkTotals
from muster.launch._job_record import JobRecord

# Of fewer steps of a task, the times say little.
_FEWEST_STEPS = 10


class NothingMeasuredError(Exception):
    """A job has not measured enough to predict anything from."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeasuredJob:
    """The times of a step, as a job has measured them.

    Args:
        workers: How many tasks took steps.
        servers: How many parameter servers there were; 0 for workers in step.
        steps_per_sec: How many steps the job made in a second: of workers in step those of each, beside
            servers those of all together.
        compute: The seconds of a step in which a worker computed.
        input: The seconds in which it waited for its batch.
        spread: The standard deviation of the two together, over steps, as a part of their mean.
        exchange: The seconds of a step that its exchange took, with the wait for others in it.
        idle: The seconds of a step in which a worker had nothing to do.
        nbytes: The bytes that a worker exchanged in a step.
        serve: The seconds that a step took of the busiest server; 0 without servers.
        cores: How many processors all tasks shared; None if they were on several machines, or nobody knows.
    """

    workers: int
    servers: int
    steps_per_sec: float
    compute: float
    input: float
    spread: float
    exchange: float
    idle: float
    nbytes: float
    serve: float
    cores: int | None = None

    @property
    def own(self) -> float:
        """The seconds of a step that a worker spends by itself."""
        return self.compute + self.input

    @classmethod
    def of(cls, record: JobRecord) -> "MeasuredJob":
        """Return what a job has measured.

        Raises:
            NothingMeasuredError: No task has counted its time over some steps.
        """
        known = [
            (each.type, each.progress.totals)
            for each in record.tasks
            if each.progress is not None and each.progress.totals is not None
        ]
        workers = [totals for kind, totals in known if kind != TaskType.PS and totals.steps >= _FEWEST_STEPS]
        servers = [totals for kind, totals in known if kind == TaskType.PS and totals.steps]
        if not workers:
            raise NothingMeasuredError(
                f"job {record.name} has measured no steps yet: let its tasks train for some seconds, by an "
                "Estimator, by fit on several workers, or by a ClusterCoordinator"
            )
        has_servers = any(each.type == TaskType.PS for each in record.tasks)
        rates = [each.steps / each.secs for each in workers]
        return cls(
            workers=len(workers),
            servers=sum(each.type == TaskType.PS for each in record.tasks),
            steps_per_sec=sum(rates) if has_servers else statistics.fmean(rates),
            compute=_a_step(workers, "compute"),
            input=_a_step(workers, "input"),
            spread=_spread(workers),
            exchange=_a_step(workers, "communication"),
            idle=_a_step(workers, "idle"),
            nbytes=_a_step(workers, "nbytes"),
            serve=max((each.compute / each.steps for each in servers), default=0.0),
            cores=record.cores if {each.host for each in record.tasks} <= {"", record.host} else None,
        )


def _a_step(workers: Sequence[WorkTotals], field: str) -> float:
    return float(sum(getattr(each, field) for each in workers)) / sum(each.steps for each in workers)


def _spread(workers: Sequence[WorkTotals]) -> float:
    """Return the coefficient of variation of the time that steps take a worker by itself."""
    steps = sum(each.steps for each in workers)
    mean = sum(each.compute + each.input for each in workers) / steps
    if mean <= 0:
        return 0.0
    variance = sum(each.squares for each in workers) / steps - mean**2
    return math.sqrt(max(0.0, variance)) / mean
