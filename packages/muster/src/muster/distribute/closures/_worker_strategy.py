"""Replacements for the strategy and the dataset in code that a coordinator sends to a worker."""

from collections.abc import Callable
from typing import Any

from muster.data import Dataset
from muster.distribute.input._input_context import InputContext


class WorkerStrategy:
    """A strategy as the code of a dataset sees it in a worker: the worker reads the whole dataset.

    Attributes:
        num_replicas_in_sync: 1, since workers train on their own.
    """

    num_replicas_in_sync = 1

    def experimental_distribute_dataset(self, dataset: Dataset, options: Any = None) -> Dataset:
        """Return the dataset."""
        return dataset

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[[InputContext], Dataset], options: Any = None
    ) -> Dataset:
        """Return the dataset that a function makes."""
        return dataset_fn(InputContext(1, 0, 1))

    def __reduce__(self) -> tuple[Any, ...]:
        return WorkerStrategy, ()


def same(value: Any) -> Any:
    """Return a value: the dataset that was pickled."""
    return value
