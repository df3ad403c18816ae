"""The thread that computes batches of requests."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from muster.serve._batches import Array, BatchQueue, InferenceRequest, compute

Outcome = tuple[InferenceRequest, Mapping[str, Array] | Exception]


class Runner:
    """Computes jobs in a thread, those together that wait together.

    Args:
        done: Called in the thread with jobs that have been computed, and what came of them.
        most_rows: How many rows a batch may have.
        most_jobs: How many jobs may wait.
        wait_secs: How long a job may wait for others to come.

    Attributes:
        on_batch: Called in the thread with jobs that were computed together, and how long that took, in
            seconds.
    """

    def __init__(
        self, done: Callable[[list[Outcome]], None], *, most_rows: int, most_jobs: int, wait_secs: float
    ) -> None:
        self.on_batch: Callable[[Sequence[InferenceRequest], float], None] = lambda jobs, secs: None
        self._done, self._most_rows = done, most_rows
        self._queue = BatchQueue(most_rows=most_rows, most_jobs=most_jobs, wait_secs=wait_secs)
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="muster-serve-runner")
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of jobs that wait."""
        return len(self._queue)

    def submit(self, job: InferenceRequest) -> None:
        """Let a job be computed.

        Raises:
            RequestError: Too many wait.
        """
        with self._changed:
            self._queue.add(job, time.monotonic())
            self._changed.notify()

    def close(self) -> None:
        """Compute what waits, and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while jobs := self._next():
            began = time.perf_counter()
            outcomes: list[Any] = compute(jobs, self._most_rows)
            self.on_batch(jobs, time.perf_counter() - began)
            self._done(list(zip(jobs, outcomes, strict=True)))

    def _next(self) -> list[InferenceRequest]:
        """Wait for jobs that are due; returns none when it is closed and none are left."""
        with self._changed:
            while True:
                jobs, wait = self._queue.take(time.monotonic())
                if jobs or (self._closed and not len(self._queue)):
                    return jobs
                self._changed.wait(wait)
