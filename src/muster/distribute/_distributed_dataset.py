"""Datasets over replicas: each step's batch, divided among them."""

import itertools
import logging
import operator
import secrets
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from muster._errors import DatasetError
from muster.data import AutoShardPolicy, Dataset
from muster.distribute._shared_batches import Whole
from muster.distribute._values import PerReplica, repeated, stacked

if TYPE_CHECKING:
    from muster.distribute._strategy import Strategy

Array = Any

_log = logging.getLogger(__name__)


class DistributedDataset:
    """What each of a strategy's steps is given: iterate over it, as often as you like.

    Where there is one replica, an element is a batch as the dataset has it. Where there are several, its
    arrays are ``PerReplica``: of this process' replicas.

    Source: tensorflow/python/distribute/input_lib.py, ``DistributedDataset``.
    """

    def __init__(self, steps: Callable[[int | None], Iterator[Any]]) -> None:
        self._steps = steps

    def __iter__(self) -> "DistributedIterator":
        return self.iterator()

    def iterator(self, seed: int | None = None) -> "DistributedIterator":
        """The steps from the start.

        Args:
            seed: what shuffles that have no seed of their own take theirs from; the same on all workers. None
                for another one each time.
        """
        return DistributedIterator(self._steps(seed))


class DistributedIterator:
    """The steps of a distributed dataset, from its start.

    Source: tensorflow/python/distribute/input_lib.py, ``DistributedIterator``.
    """

    def __init__(self, steps: Iterator[Any]) -> None:
        self._steps = steps

    def __iter__(self) -> "DistributedIterator":
        return self

    def __next__(self) -> Any:
        return next(self._steps)

    def get_next(self) -> Any:
        """The next step's batch.

        Raises:
            StopIteration: There is none. TensorFlow raises OutOfRangeError.
        """
        return next(self._steps)


def steps_of_global_batches(strategy: "Strategy", dataset: Dataset, seed: int | None = None) -> Iterator[Any]:
    """Divide batches of a dataset that every worker reads among the replicas.

    A batch that they cannot share equally is given whole to each of them, and counts once. Of N workers,
    the chunks ``w``, ``w + N``, … are worker ``w``'s. With the policy OFF, all workers see all examples.

    Source: tensorflow/python/distribute/input_lib.py; tensorflow/python/data/experimental/ops/distribute.py.
    """
    context = strategy.input_context
    workers, worker, local = context.num_input_pipelines, context.input_pipeline_id, strategy.local_replicas
    policy = dataset.options().experimental_distribute.auto_shard_policy
    if policy is AutoShardPolicy.FILE and workers > 1:
        raise DatasetError(
            "AutoShardPolicy.FILE gives each worker files of its own, and this dataset does not read files. "
            "Choose DATA, or OFF."
        )
    # A shuffle without a seed is to be the same for all workers, and another one each time.
    if seed is None and workers > 1:
        seed = strategy.tell_all(secrets.randbits(31))[0]
    warned = False
    with dataset.iterator(seed=seed) as batches:
        for whole_batch in batches:
            _require_batch(whole_batch)
            if workers * local == 1:
                yield whole_batch
                continue
            apart = policy is AutoShardPolicy.OFF and workers > 1
            for batch in _pieces(whole_batch, workers) if apart else [whole_batch]:
                rows = _rows(batch)
                parts = local if apart else local * workers
                if rows % parts == 0:
                    places = range(local) if apart else range(worker, parts, workers)
                    yield _divided(batch, rows // parts, places)
                    continue
                if not warned and rows > parts:
                    warned = True
                    _log.warning(
                        "%d replicas cannot share a batch of %d rows equally: each computes all of it, "
                        "and it counts once. Batches of %d or %d rows would be shared.",
                        parts,
                        rows,
                        rows - rows % parts,
                        rows - rows % parts + parts,
                    )
                yield jax.tree.map(lambda leaf: repeated(leaf, local), batch)


def steps_of_replica_batches(
    strategy: "Strategy", dataset: Dataset, seed: int | None = None
) -> Iterator[Any]:
    """Let each replica of this worker take a batch of its own in every step.

    At the end, what is left is divided as a global batch is.
    """
    context = strategy.input_context
    local = strategy.local_replicas
    with dataset.iterator(seed=seed) as batches:
        if strategy.num_replicas_in_sync == 1:
            yield from batches
            return
        if context.num_input_pipelines == 1:
            while group := list(itertools.islice(batches, local)):
                yield _grouped(group, local)
            return
        first = next(batches, None)
        if first is None:
            raise DatasetError("The dataset of this worker is empty: every worker needs a batch.")
        with strategy.share_batches(itertools.chain([first], batches), first) as shared:
            for batch in shared:
                if isinstance(batch, Whole):
                    yield jax.tree.map(lambda leaf: repeated(leaf, local), batch.batch)
                else:
                    yield _divided(batch, _rows(batch) // local, range(local))


def _grouped(group: list[Any], local: int) -> Any:
    shapes = [[np.shape(leaf) for leaf in jax.tree.leaves(batch)] for batch in group]
    if len(group) == local and all(each == shapes[0] for each in shapes):
        return jax.tree.map(lambda *leaves: stacked(list(leaves)), *group)
    batch = jax.tree.map(lambda *leaves: np.concatenate([np.atleast_1d(leaf) for leaf in leaves]), *group)
    if _rows(batch) % local == 0:
        return _divided(batch, _rows(batch) // local, range(local))
    return jax.tree.map(lambda leaf: repeated(leaf, local), batch)


def _divided(batch: Any, size: int, places: range) -> Any:
    """The chunks of so many rows at some places, one for each replica of this process."""

    def divide(leaf: Array) -> PerReplica:
        array = np.asarray(leaf)
        chunks = array.reshape(-1, size, *array.shape[1:])
        return PerReplica(chunks[places.start : places.stop : places.step])

    return jax.tree.map(divide, batch)


def _pieces(batch: Any, count: int) -> list[Any]:
    rows = _rows(batch)
    size = -(-rows // count)
    slices = [slice(start, start + size) for start in range(0, rows, size)]
    return [jax.tree.map(operator.itemgetter(each), batch) for each in slices]


def _rows(batch: Any) -> int:
    return len(jax.tree.leaves(batch)[0])


def _require_batch(batch: Any) -> None:
    if any(np.ndim(leaf) == 0 for leaf in jax.tree.leaves(batch)):
        raise ValueError(
            "The elements of this dataset are not batches. Call the `batch` method on the dataset with the "
            "global batch size, which the replicas share."
        )
