"""Batches that workers draw for themselves in ``fit``, each of a dataset of its own."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from muster.data import Dataset
from muster.distribute.closures import WorkerStrategy
from muster.distribute.coordinator._cluster_coordinator import ClusterCoordinator
from muster.distribute.coordinator._per_worker import PerWorkerDataset
from muster.distribute.fit._fit_input import Position, StepBatches, with_class_weights
from muster.distribute.input._dataset_creator import DatasetCreator


class WorkerBatches(StepBatches):
    """Lets each step draw a batch on the worker that takes it.

    An epoch continues where the last one ended. After an interruption workers begin anew: their places are
    not saved.

    Args:
        dataset: Each worker makes it for itself.
    """

    ends_epochs = False

    def __init__(self, dataset: PerWorkerDataset) -> None:
        super().__init__()
        self.position = Position([], 0)
        kind = dataset.first_kind()
        arrays = [np.zeros(shape, dtype) for shape, dtype, _ in kind.arrays]
        self._example = kind.structure.unflatten(arrays)
        self._iterator = iter(dataset)

    @property
    def num_batches(self) -> None:
        """The number of batches in a pass, which is not known."""

    def __getitem__(self, index: int) -> Any:
        """Return a batch of zeros, for its structure."""
        return self._example

    def begin(self) -> None:
        """Start an epoch."""

    def go_on(self, position: Position) -> None:
        """Begin anew."""

    def catch_up(self, iterator: Iterator[Any]) -> None:
        """Begin anew."""

    def next(self, method: str, iterator: Iterator[Any]) -> Any:
        """Return an iterator of the workers, from which a step draws its batch."""
        return self._iterator


def made_by_workers(
    coordinator: ClusterCoordinator, creator: DatasetCreator, class_weight: dict[int, float] | None
) -> PerWorkerDataset:
    """Return the dataset that each worker makes by a function.

    Args:
        coordinator: Has the workers make it.
        creator: The function.
        class_weight: The weights of examples by class; None for no weights.
    """
    make: Callable[[], Dataset]
    make = functools.partial(WorkerStrategy().distribute_datasets_from_function, creator)
    if class_weight is not None:
        make = functools.partial(_weighted, make, class_weight)
    return coordinator.create_per_worker_dataset(make)


def _weighted(make: Callable[[], Dataset], class_weight: dict[int, float]) -> Dataset:
    return make().map(lambda *batch: with_class_weights(batch, class_weight))
