"""Predict the speed of a job with other numbers of tasks, from what one has measured."""

import dataclasses
import math
from collections.abc import Sequence

from muster.launch.scaling._measured_job import MeasuredJob
from muster.launch.scaling._simulation import served_rate, slowest

# What an exchange between two workers takes on one machine: so long in all, and so many bytes in a second. By
# docs/dependencies.md: 16 KB in 0.032 ms, 100 MB in 83 ms.
_ROUND_SECS, _LOOPBACK_BYTES_PER_SEC = 3e-5, 1.2e9
# Up to so many workers are connected all with all, and add up in two rounds.
_ALL_WITH_ALL = 4
# What a request takes of a server at least, however little it is for, in seconds.
_LEAST_SERVE_SECS = 1e-4
# How often the interval is halved in which the time on the way to servers is looked for.
_CALIBRATIONS = 24


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpeedPrediction:
    """How fast a job would be.

    Args:
        workers: How many workers it has.
        servers: How many parameter servers; 0 for workers in step.
        steps_per_sec: Of workers in step the steps of each, else those of all together.
        batches_per_sec: The batches of a worker that are trained in a second, by all workers together.
        efficiency: The part of its speed alone that a worker has left.
        limit: What most of the time is lost by, for people.
    """

    workers: int
    servers: int
    steps_per_sec: float
    batches_per_sec: float
    efficiency: float
    limit: str


def predict(
    job: MeasuredJob, workers: int, servers: int, bytes_per_sec: float | None = None
) -> SpeedPrediction:
    """Return how fast a job would be.

    Each worker keeps its batch: more workers train more examples in a step.

    Args:
        job: What was measured.
        workers: How many workers it would have.
        servers: How many parameter servers; 0 for workers in step.
        bytes_per_sec: What the network carries to and from a machine, at the same time; None leaves the
            exchange as fast as it was, and all tasks on their machine, if it was one: workers in step, who
            compute at the same time, then share its processors.

    Raises:
        ValueError: Servers are asked for, and the job had none, or the other way round.
    """
    if bool(servers) != bool(job.servers):
        had, other = ("had", "without") if job.servers else ("had no", "with")
        raise ValueError(f"the job {had} parameter servers, so that it says nothing of one {other} them")
    if servers:
        return _served(job, workers, servers, bytes_per_sec)
    return _in_step(job, workers, bytes_per_sec)


def _in_step(job: MeasuredJob, workers: int, bytes_per_sec: float | None) -> SpeedPrediction:
    crowding = 1.0 if bytes_per_sec is not None else _crowding(job, workers) / _crowding(job, job.workers)
    compute = crowding * job.compute
    own = slowest(workers, compute + job.input, job.spread)
    exchange = _exchange(job, workers, bytes_per_sec) * (crowding if job.workers > 1 else 1.0)
    waiting = own - compute - job.input
    rate = 1 / (own + exchange)
    parts = {
        "computing": compute,
        "waiting for input": job.input,
        "waiting for the slowest worker": waiting,
        "the exchange": exchange,
    }
    return SpeedPrediction(
        workers=workers,
        servers=0,
        steps_per_sec=rate,
        batches_per_sec=rate * workers,
        efficiency=rate * job.own,
        limit=max(parts, key=lambda name: parts[name]),
    )


def _crowding(job: MeasuredJob, workers: int) -> float:
    """Return how many workers share a processor, if they are on one machine; at least 1."""
    return 1.0 if job.cores is None else max(1.0, workers / job.cores)


def _exchange(job: MeasuredJob, workers: int, bytes_per_sec: float | None) -> float:
    """Return how long an exchange of workers in step takes, beside waiting for the slowest, in seconds."""
    if workers == 1:
        return 0.0
    here = bytes_per_sec or _LOOPBACK_BYTES_PER_SEC
    if job.workers == 1:
        each_round = _ROUND_SECS
    else:
        moved = _moved(job.workers) * job.nbytes / _LOOPBACK_BYTES_PER_SEC
        # What was not the wait for the slowest, as far as the spread of their times explains that.
        exchange = 1 / job.steps_per_sec - slowest(job.workers, job.own, job.spread)
        each_round = max(_ROUND_SECS, (exchange - moved) / _rounds(job.workers))
    return each_round * _rounds(workers) + _moved(workers) * job.nbytes / here


def _rounds(workers: int) -> int:
    return 2 if workers <= _ALL_WITH_ALL else 2 * math.ceil(math.log2(workers))


def _moved(workers: int) -> float:
    """Return how many times its values a worker sends: a share to each other one, then their sums."""
    return 2 * (workers - 1) / workers


def _served(job: MeasuredJob, workers: int, servers: int, bytes_per_sec: float | None) -> SpeedPrediction:
    between = _between(job)
    serve = _serve(job, servers, bytes_per_sec)
    if bytes_per_sec is not None:
        between += job.nbytes / bytes_per_sec
    rate = served_rate(workers, own=job.own, spread=job.spread, between=between, serve=serve)
    alone = 1 / (job.own + between + serve)
    waiting = max(0.0, workers / rate - 1 / alone)
    parts = {
        "computing": job.compute,
        "waiting for input": job.input,
        "the way to servers and back": between,
        "the servers": serve + waiting,
    }
    return SpeedPrediction(
        workers=workers,
        servers=servers,
        steps_per_sec=rate,
        batches_per_sec=rate,
        efficiency=rate / workers / alone,
        limit=max(parts, key=lambda name: parts[name]),
    )


def _serve(job: MeasuredJob, servers: int, bytes_per_sec: float | None) -> float:
    """Return how long a step keeps each server busy: with its part of the work, or of the bytes."""
    least = min(_LEAST_SERVE_SECS, job.serve)
    work = least + (job.serve - least) * job.servers / servers
    return work if bytes_per_sec is None else max(work, job.nbytes / servers / bytes_per_sec)


def _between(job: MeasuredJob) -> float:
    """Return the seconds of a step on the way to servers, by which a simulation is as fast as the job was."""
    low, high = 0.0, job.exchange + job.idle
    for _ in range(_CALIBRATIONS):
        middle = (low + high) / 2
        rate = served_rate(job.workers, own=job.own, spread=job.spread, between=middle, serve=job.serve)
        low, high = (middle, high) if rate > job.steps_per_sec else (low, middle)
    return (low + high) / 2


def saturation(job: MeasuredJob, servers: int, bytes_per_sec: float | None = None) -> tuple[float, float]:
    """Return the steps in a second that servers serve at most, and by how many workers they are saturated."""
    serve = _serve(job, servers, bytes_per_sec)
    way = _between(job) + (job.nbytes / bytes_per_sec if bytes_per_sec is not None else 0.0)
    return 1 / serve, (job.own + way + serve) / serve


def error_of(job: MeasuredJob, other: MeasuredJob) -> float:
    """Return by which part of its speed the prediction for another job is wrong.

    Args:
        job: What the prediction is made from.
        other: The other job, of the same program and batch.

    Raises:
        ValueError: As of `predict`.
    """
    predicted = predict(job, other.workers, other.servers).steps_per_sec
    return predicted / other.steps_per_sec - 1


def predictions(
    job: MeasuredJob, workers: Sequence[int], servers: Sequence[int], bytes_per_sec: float | None
) -> list[SpeedPrediction]:
    """Return predictions for all combinations, in order; raises as `predict` does."""
    return [predict(job, count, beside, bytes_per_sec) for beside in servers for count in workers]
