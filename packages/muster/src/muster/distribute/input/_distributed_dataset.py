"""Distributed datasets: the batch of each step, divided among replicas."""

import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from muster._errors import PositionError, TraceError
from muster._frontend import frontend
from muster.data import Dataset, GetNext, Optional, next_orders, return_to_orders
from muster.distribute.input._batch_sources import BatchSource
from muster.distribute.input._step_input import Orders
from muster.distribute.replicas._replica_context import refuse_in_program
from muster.distribute.workers._progress import LoopProgress
from muster.program.variables import shared_with_step

_log = logging.getLogger(__name__)


class CapturedIteratorError(TraceError):
    """A function that is being traced draws from an iterator that is none of its arguments.

    Attributes:
        iterator: The iterator.
    """

    def __init__(self, iterator: "DistributedIterator", message: str) -> None:
        super().__init__(message)
        self.iterator = iterator


class CapturedDatasetError(TraceError):
    """A function that is being traced goes through a dataset that is none of its arguments."""


class DistributedDataset:
    """A dataset whose batches are divided among a strategy's replicas; every iteration is a new pass.

    With one replica, elements are the batches of the dataset. With more, they have the structure of a batch,
    and each leaf is a ``PerReplica`` with the values of this process' replicas.

    Args:
        batches: Provides the batches of a pass.
        endless: Whether a pass has no end.

    Attributes:
        endless: Whether a pass has no end.

    Source: tensorflow/python/distribute/input_lib.py, ``DistributedDataset``.
    """

    def __init__(self, batches: BatchSource, *, endless: bool) -> None:
        self._batches = batches
        self.endless = endless

    @property
    def dataset(self) -> Dataset:
        """A dataset of this process with the structure of the batches: with one replica, of these batches."""
        return self._batches.dataset

    @property
    def element_spec(self) -> Any:
        """A structure of ``TensorSpec``: of a replica's batch; with more than one, rows may vary.

        TensorFlow wraps them into a ``PerReplicaSpec``.
        """
        return self._batches.element_spec

    def __iter__(self) -> "DistributedIterator":
        return self.iterator()

    def iterator(self, seed: int | None = None) -> "DistributedIterator":
        """Begin a pass.

        Args:
            seed: The seed of shuffles without one, the same on all workers; None for a new one each time.
        """
        try:
            refuse_in_program("A loop over a dataset", "Give the function the dataset as an argument")
        except TraceError as exc:
            raise CapturedDatasetError(str(exc)) from None
        return DistributedIterator(
            self._batches, self._batches.steps(seed), self._batches.loop, self._batches.drew
        )

    def worker_batches(self, seed: int) -> "DistributedIterator":
        """Begin a pass over worker batches: what ``fit`` takes, rather than the values of replicas.

        Args:
            seed: The seed of shuffles without one, the same on all workers.
        """
        return DistributedIterator(self._batches, self._batches.worker_batches(seed))

    def global_batches(self, seed: int) -> "DistributedIterator":
        """Begin a pass over batches of all workers, where workers come and go.

        Args:
            seed: As for `worker_batches`.
        """
        return DistributedIterator(self._batches, self._batches.global_batches(seed))

    @property
    def next_orders(self) -> Orders:
        """The seeds and counts by which the next pass will be shuffled, for each dataset of this worker."""
        return [list(map(list, next_orders(dataset))) for dataset in self._batches.datasets]

    def return_to(self, orders: Orders) -> None:
        """Let the next pass be shuffled as a saved one, and those after it as it went on.

        Raises:
            PositionError: This worker reads other datasets.
        """
        datasets = self._batches.datasets
        if len(datasets) != len(orders):
            raise PositionError(
                f"this worker read {len(orders)} dataset(s) when a pass was saved, and now {len(datasets)}: "
                "go on with the strategy that was saved, or begin anew without what was saved."
            )
        for dataset, each in zip(datasets, orders, strict=True):
            return_to_orders(dataset, each)


class DistributedIterator(GetNext):
    """One pass over a distributed dataset.

    A ``muster.function`` that takes it as an argument draws new batches by ``next`` in every call.

    At the end it logs how long the loop has waited for input.

    Args:
        batches: Provides the batches of a pass.
        steps: The pass.
        progress: Reports the steps of the loop that draws; None for nothing.
        drew: Called with each batch.

    Attributes:
        input_wait_secs: The seconds that the loop has waited so far: for reading and computing batches, and
            for agreeing on them with other workers.
        steps_taken: The number of batches so far.

    Source: tensorflow/python/distribute/input_lib.py, ``DistributedIterator``.
    """

    _END = object()

    def __init__(
        self,
        batches: BatchSource,
        steps: Iterator[Any],
        progress: LoopProgress | None = None,
        drew: Callable[[Any], None] = lambda batch: None,
    ) -> None:
        self._drew = drew
        self._progress = progress
        self._batches = batches
        self._steps = steps
        self._began: float | None = None
        self._reported = False
        self.input_wait_secs = 0.0
        self.steps_taken = 0

    def __iter__(self) -> "DistributedIterator":
        return self

    def __next__(self) -> Any:
        if (stand_in := shared_with_step(self)) is not None:
            return next(stand_in)
        self._refuse_in_program()
        began = time.perf_counter()
        if self._began is None:
            self._began = began
        try:
            with contextlib.nullcontext() if self._progress is None else self._progress.drawing():
                batch = next(self._steps, self._END)
        finally:
            ended = time.perf_counter()
            self.input_wait_secs += ended - began
        if batch is self._END:
            self._report(ended - self._began)
            if self._progress is not None:
                self._progress.end_pass()
            raise StopIteration
        self._drew(batch)
        self.steps_taken += 1
        if self._progress is not None:
            self._progress.drew()
        shown = frontend().batch
        return batch if shown is None else shown(batch)

    @property
    def element_spec(self) -> Any:
        """The ``element_spec`` of the dataset."""
        return self._batches.element_spec

    def give_back(self, batches: Sequence[Any]) -> None:
        """Return batches that were drawn last, so that they are drawn next."""
        self._steps = itertools.chain(batches, self._steps)
        self.steps_taken -= len(batches)

    def get_next_as_optional(self) -> Optional:
        """Return the next batch, or at the end an Optional without a value."""
        if (stand_in := shared_with_step(self)) is not None:
            optional: Optional = stand_in.get_next_as_optional()
            return optional
        return super().get_next_as_optional()

    def _refuse_in_program(self) -> None:
        try:
            refuse_in_program("`next` of an iterator", "Give the function the iterator as an argument")
        except TraceError as exc:
            raise CapturedIteratorError(self, str(exc)) from None

    def _report(self, secs: float) -> None:
        if self.steps_taken and not self._reported:
            self._reported = True
            _log.info(
                "Waited %.3f s of %.3f s (%.0f %%) for the input of %d steps.",
                self.input_wait_secs,
                secs,
                100 * self.input_wait_secs / max(secs, 1e-9),
                self.steps_taken,
            )
