"""The input of a trainer beside a coordinator: workers may draw batches of their own."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from muster.cluster import TaskType
from muster.data import INFINITE_CARDINALITY, Dataset
from muster.distribute.closures import WorkerStrategy
from muster.distribute.coordinator._cluster_coordinator import ClusterCoordinator
from muster.distribute.coordinator._per_worker import DispatchedIterator, PerWorkerDataset
from muster.distribute.fit._fit_input import ENDLESS, FitInput, with_class_weights
from muster.distribute.fit._trainer_input import DATASETS, TrainerInput
from muster.distribute.input import Position
from muster.distribute.input._dataset_creator import DatasetCreator


class WorkerBatches(FitInput):
    """Lets each step draw its batches on the worker that takes it.

    Of a dataset that workers share, each batch is drawn by one step. The places of workers in datasets of
    their own are not saved: after an interruption they begin anew.

    Args:
        dataset: The dataset.
        per_epoch: The number of batches in an epoch; None for one pass.
        continues: Whether an epoch continues in the pass of the epoch before.
        workers: The number of workers, which make datasets alike, as far as is known beforehand.

    Attributes:
        has_ended: Whether the pass is over, since no worker has a batch left.

    Raises:
        ValueError: A pass has no end that anybody knows, and ``per_epoch`` is None; or it is to be evaluated,
            and not shared.
    """

    says_end = True
    share = "what each worker draws"

    def __init__(
        self, dataset: PerWorkerDataset, per_epoch: int | None, *, continues: bool, workers: int
    ) -> None:
        super().__init__()
        self._dataset = dataset
        self._continues, self._per_epoch = continues, per_epoch
        self._in_epoch = 0
        self.ends_epochs = per_epoch is None
        self._iterator = iter(dataset)
        cardinality = int(dataset.sample.cardinality())
        if not (continues or isinstance(self._iterator, DispatchedIterator)):
            raise ValueError(
                "A dataset of which each worker reads all is for `fit`, with `steps_per_epoch`. To count "
                "each example once, give a Dataset, or let workers share it: dispatch='dynamic'."
            )
        if self.ends_epochs and cardinality == INFINITE_CARDINALITY:
            raise ValueError(ENDLESS)
        self._count = cardinality if self.ends_epochs and cardinality >= 0 else None
        kind = dataset.first_kind()
        arrays = [np.zeros(shape, dtype) for shape, dtype, _ in kind.arrays]
        self.example = kind.structure.unflatten(arrays)
        self._saved: Position | None = None
        self.has_ended = False
        self._whole = workers * cardinality if cardinality >= 0 else None
        self._drawn = 0

    def position(self, steps: int | None = None) -> Position:
        """Return the position of a pass that workers share; of others only the workers know."""
        return self._iterator.place if isinstance(self._iterator, DispatchedIterator) else Position()

    @property
    def next_position(self) -> Position:
        return Position() if self.ends_epochs else self.position()

    @property
    def num_batches(self) -> int | None:
        """The number of batches in a pass; None if it is not known."""
        return self._count

    def begin(self) -> None:
        """Start an epoch: with a new pass, unless it continues one, or goes on from a position."""
        self._in_epoch = 0
        is_over = self._whole is not None and self._drawn >= self._whole
        if not self._continues or self.has_ended or is_over or not _left(self._iterator, 1):
            self.has_ended, self._drawn = False, 0
            self._iterator = iter(self._dataset)
        saved, self._saved = self._saved, None
        if saved is not None and saved.pipelines and isinstance(self._iterator, DispatchedIterator):
            self._iterator.go_on(saved)

    def go_on(self, position: Position) -> None:
        self._saved = position

    def catch_up(self, iterator: Iterator[Any]) -> None:
        """Nothing is behind."""

    def __next__(self) -> Any:
        """Return an iterator of the workers, from which a step draws its batch.

        Raises:
            StopIteration: The epoch has all of its steps.
        """
        if self._per_epoch is not None and self._in_epoch >= self._per_epoch:
            raise StopIteration  # a call of several steps may have fewer at the end of an epoch
        self._in_epoch += 1
        self._drawn += not isinstance(self._iterator, DispatchedIterator)
        return self._iterator


class CoordinatedInput(TrainerInput):
    """Has workers draw the batches of what they can make themselves."""

    datasets = (*DATASETS, PerWorkerDataset)

    def _of_dataset(
        self,
        dataset: Any,
        per_epoch: int | None,
        class_weight: dict[int, float] | None = None,
        *,
        continues: bool = False,
    ) -> FitInput:
        shares = isinstance(dataset, Dataset) and dataset.options().experimental_distribute.dispatch
        if shares or (isinstance(dataset, DatasetCreator) and continues):
            dataset = made_by_workers(ClusterCoordinator(self._strategy), dataset, class_weight)
        elif isinstance(dataset, PerWorkerDataset) and class_weight is not None:
            raise ValueError(
                "class_weight is for data that fit can weigh. Let the dataset yield (inputs, targets, "
                "sample_weights)."
            )
        if isinstance(dataset, PerWorkerDataset):
            workers = number_of_workers(self._strategy)
            return WorkerBatches(dataset, per_epoch, continues=continues, workers=workers)
        return super()._of_dataset(dataset, per_epoch, class_weight, continues=continues)


def number_of_workers(strategy: Any) -> int:
    """Return how many workers a strategy with a coordinator has."""
    count: int = strategy.cluster.num_tasks(TaskType.WORKER)
    return count


def drawable(batches: Sequence[Any]) -> Sequence[Any]:
    """Return of the batches of a call, which may be iterators, as many as there are."""
    return batches[: _left(batches[0], len(batches))]


def _left(iterator: Any, most: int) -> int:
    """Return how many batches an iterator has left, up to a number."""
    return iterator.left(most) if isinstance(iterator, DispatchedIterator) else most


def made_by_workers(
    coordinator: ClusterCoordinator, source: DatasetCreator | Dataset, class_weight: dict[int, float] | None
) -> PerWorkerDataset:
    """Return a dataset that each worker makes, by a function if that is the source.

    Args:
        coordinator: Has the workers make it.
        source: The function, or the dataset.
        class_weight: The weights of examples by class; None for no weights.
    """
    if isinstance(source, Dataset):
        return coordinator.create_per_worker_dataset(_weighted(source, class_weight))
    make: Callable[[], Dataset]
    make = functools.partial(WorkerStrategy().distribute_datasets_from_function, source)
    if class_weight is not None:
        make = functools.partial(_made, make, class_weight)
    return coordinator.create_per_worker_dataset(make)


def _made(make: Callable[[], Dataset], class_weight: dict[int, float]) -> Dataset:
    return _weighted(make(), class_weight)


def _weighted(dataset: Dataset, class_weight: dict[int, float] | None) -> Dataset:
    if class_weight is None:
        return dataset
    return dataset.map(lambda *batch: with_class_weights(batch, class_weight))
