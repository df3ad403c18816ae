"""Batch requests that can be computed together; no threads or clocks."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from muster._errors import RequestError

Array = np.ndarray[Any, Any]
Call = Callable[..., Mapping[str, Array]]


@dataclass(frozen=True, eq=False)
class InferenceRequest:
    """A request to compute.

    Attributes:
        call: Computes a batch: takes inputs and returns outputs by name.
        inputs: The inputs.
        rows: The length of the first axis of all inputs and outputs; None if they have no such axis, so that
            the request is computed by itself.
        settle: Whatever the one who asks wants to have back with the outcome.
    """

    call: Call
    inputs: Mapping[str, Array]
    rows: int | None
    settle: Any = None

    @property
    def key(self) -> Any:
        """Jobs with equal keys can be computed together."""
        if self.rows is None:
            return id(self)
        return id(self.call), *((array.shape[1:], array.dtype) for array in self.inputs.values())


class BatchQueue:
    """Requests that wait to be computed.

    Args:
        most_rows: How many rows a batch may have.
        most_jobs: How many requests may wait.
        wait_secs: How long a request may wait for others to come; 0 takes those that are there.
    """

    def __init__(self, *, most_rows: int, most_jobs: int, wait_secs: float) -> None:
        self._most_rows, self._most_jobs, self._wait_secs = most_rows, most_jobs, wait_secs
        self._waiting: dict[Any, deque[tuple[float, InferenceRequest]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, job: InferenceRequest, now: float) -> None:
        """Let a job wait.

        Raises:
            RequestError: Too many do already: 503.
        """
        if self._count >= self._most_jobs:
            raise RequestError(
                f"The server is busy: {self._count} requests wait already. Try again later.", status=503
            )
        self._waiting.setdefault(job.key, deque()).append((now, job))
        self._count += 1

    def take(self, now: float) -> tuple[list[InferenceRequest], float | None]:
        """Take jobs to compute together: those of the one that has waited longest of those that are due.

        Returns:
            The jobs, if any are due, and else after how many seconds to look again; None if none wait.
        """
        due = [
            key
            for key, jobs in self._waiting.items()
            if now - jobs[0][0] >= self._wait_secs or self._rows(jobs) >= self._most_rows
        ]
        if not due:
            times = [jobs[0][0] for jobs in self._waiting.values()]
            return [], min(times) + self._wait_secs - now if times else None
        jobs = self._waiting[min(due, key=lambda key: self._waiting[key][0][0])]
        taken: list[InferenceRequest] = []
        rows = 0
        while jobs and (not taken or rows + (jobs[0][1].rows or 0) <= self._most_rows):
            taken.append(jobs.popleft()[1])
            rows += taken[-1].rows or 0
        if not jobs:
            del self._waiting[taken[0].key]
        self._count -= len(taken)
        return taken, None

    @staticmethod
    def _rows(jobs: deque[tuple[float, InferenceRequest]]) -> int:
        return sum(job.rows or 0 for _, job in jobs)


def batch_sizes(most_rows: int) -> list[int]:
    """Return the sizes to which batches are padded: powers of two, and the largest."""
    return sorted({min(1 << i, most_rows) for i in range(most_rows.bit_length() + 1)})


def compute(jobs: list[InferenceRequest], most_rows: int) -> list[Mapping[str, Array] | Exception]:
    """Compute jobs with equal keys together.

    If a batch fails, its jobs are computed one by one: the others shall not fail because of one of them.

    Returns:
        The outputs of each, or what it raised.
    """
    try:
        if len(jobs) > 1:
            return list(_together(jobs, most_rows))
        (job,) = jobs
        return [
            job.call(**job.inputs) if job.rows is None else _padded(job.call, job.inputs, job.rows, most_rows)
        ]
    except Exception as exc:
        if len(jobs) == 1:
            return [exc]
    return [outcome for job in jobs for outcome in compute([job], most_rows)]


def _together(jobs: list[InferenceRequest], most_rows: int) -> list[Mapping[str, Array]]:
    inputs = {name: np.concatenate([job.inputs[name] for job in jobs]) for name in jobs[0].inputs}
    ends = np.cumsum([job.rows or 0 for job in jobs]).tolist()
    outputs = _padded(jobs[0].call, inputs, ends[-1], most_rows)
    return [
        {name: array[start:end] for name, array in outputs.items()}
        for start, end in zip([0, *ends[:-1]], ends, strict=True)
    ]


def _padded(call: Call, inputs: Mapping[str, Array], rows: int, most_rows: int) -> Mapping[str, Array]:
    """Compute rows in batches of few sizes, so that few programs are compiled; returns as many rows."""
    parts = []
    for start in range(0, rows, most_rows):
        here = min(rows - start, most_rows)
        size = next(size for size in batch_sizes(most_rows) if size >= here)
        part = {name: array[start : start + here] for name, array in inputs.items()}
        if size > here:
            # The first row again, which the model can take: zeros may be none that it knows.
            part = {name: np.concatenate([a, np.repeat(a[:1], size - here, 0)]) for name, a in part.items()}
        outputs = call(**part)
        for name, array in outputs.items():
            if not array.ndim or len(array) != size:
                raise RequestError(
                    f"The output {name!r} has the shape {list(array.shape)} for {size} rows: another number "
                    "of rows than the inputs.",
                    status=500,
                )
        parts.append({name: array[:here] for name, array in outputs.items()})
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
