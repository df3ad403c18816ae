"""Datasets over replicas: each step's batch, divided among them."""

import itertools
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import jax
import numpy as np

from muster._errors import DatasetError
from muster.data import AutoShardPolicy, Dataset, FileShare, GetNext, TensorSpec, describe_share
from muster.distribute.input._input_context import InputContext
from muster.distribute.input._input_options import InputOptions
from muster.distribute.input._shared_batches import Whole
from muster.distribute.input._worker_share import (
    batch_sizes_for_worker,
    cut,
    file_share,
    log_share,
    rows_of_worker,
)
from muster.distribute.replicas._replica_context import refuse_in_program
from muster.distribute.replicas._values import PerReplica, repeated, stacked

if TYPE_CHECKING:
    from muster.distribute.strategies._strategy import Strategy

Array = Any

_log = logging.getLogger(__name__)


class Batches(Protocol):
    """What a distributed dataset consists of."""

    @property
    def element_spec(self) -> Any:
        """A structure of ``TensorSpec``: of a replica's batch."""

    def steps(self, seed: int | None = None) -> Iterator[Any]:
        """The steps of one pass, by the seed of its shuffles."""


class DistributedDataset:
    """What each of a strategy's steps is given: iterate over it, as often as you like.

    Where there is one replica, an element is a batch as the dataset has it. Where there are several, its
    arrays are ``PerReplica``: of this process' replicas.

    Args:
        batches: gives those of one pass.
        endless: whether a pass has no end.

    Attributes:
        endless: as given.

    Source: tensorflow/python/distribute/input_lib.py, ``DistributedDataset``.
    """

    def __init__(self, batches: Batches, *, endless: bool) -> None:
        self._batches = batches
        self.endless = endless

    @property
    def element_spec(self) -> Any:
        """A structure of ``TensorSpec``: of a replica's batch, whose rows may vary where there are several.

        TensorFlow wraps them into a ``PerReplicaSpec``.
        """
        return self._batches.element_spec

    def __iter__(self) -> "DistributedIterator":
        return self.iterator()

    def iterator(self, seed: int | None = None) -> "DistributedIterator":
        """The steps from the start.

        Args:
            seed: what shuffles that have no seed of their own take theirs from; the same on all workers. None
                for another one each time.
        """
        refuse_in_program("A loop over a dataset", "Give the function the dataset as an argument")
        return DistributedIterator(self._batches, seed)


class DistributedIterator(GetNext):
    """The steps of a distributed dataset, from its start.

    As an argument of a ``muster.function``, each ``next`` of it there is another batch in every call.

    At its end the log says how much of the time the loop has waited for input.

    Args:
        batches: gives those of one pass.
        seed: of its shuffles.

    Attributes:
        input_wait_secs: how long it has been waited for so far, in seconds: for reading and computing
            batches, and for agreeing on them with other workers.
        steps_taken: how many batches there were so far.

    Source: tensorflow/python/distribute/input_lib.py, ``DistributedIterator``.
    """

    _END = object()

    def __init__(self, batches: Batches, seed: int | None = None) -> None:
        self._batches = batches
        self._steps = batches.steps(seed)
        self._began: float | None = None
        self._reported = False
        self.input_wait_secs = 0.0
        self.steps_taken = 0

    def __iter__(self) -> "DistributedIterator":
        return self

    def __next__(self) -> Any:
        refuse_in_program("`next` of an iterator", "Give the function the iterator as an argument")
        began = time.perf_counter()
        if self._began is None:
            self._began = began
        try:
            batch = next(self._steps, self._END)
        finally:
            ended = time.perf_counter()
            self.input_wait_secs += ended - began
        if batch is self._END:
            self._report(ended - self._began)
            raise StopIteration
        self.steps_taken += 1
        return batch

    @property
    def element_spec(self) -> Any:
        """As that of the dataset."""
        return self._batches.element_spec

    def give_back(self, batches: Sequence[Any]) -> None:
        """Let batches that were drawn last be the next ones again."""
        self._steps = itertools.chain(batches, self._steps)
        self.steps_taken -= len(batches)

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


class GlobalBatches:
    """Divides the global batches of a dataset among the replicas of all workers.

    A batch that they cannot share equally is given whole to each of them, and counts once. With the policy
    DATA, and AUTO where no files can be divided, all of N workers read the same batches, and the chunks
    ``w``, ``w + N``, … are worker ``w``'s. With FILE each reads its own files, and with OFF each reads
    everything; then each takes its part of a global batch in a step, until all have run out.

    Args:
        strategy: whose replicas take the steps.
        dataset: of global batches, the same on all workers.

    Source: tensorflow/python/distribute/input_lib.py; tensorflow/python/data/experimental/ops/distribute.py.
    """

    def __init__(self, strategy: "Strategy", dataset: Dataset) -> None:
        self._strategy = strategy
        self._dataset = dataset
        context, self._local = strategy.input_context, strategy.local_replicas
        self._workers, self._worker = context.num_input_pipelines, context.input_pipeline_id
        self._parts = self._workers * self._local
        # The files of this worker are found once, so that what they are read with keeps its caches.
        self._share: FileShare | None = None
        self._looked = False
        self._told = False
        self._warned = False

    @property
    def element_spec(self) -> Any:
        """A structure of ``TensorSpec``: of a replica's batch."""
        return _spec_of_part(self._strategy, self._dataset)

    def steps(self, seed: int | None = None) -> Iterator[Any]:
        """The steps of one pass.

        Args:
            seed: of shuffles without one; the same on all workers.
        """
        if self._workers > 1:
            if seed is None:
                # A shuffle without a seed is to be the same for all workers, and another one each time.
                seed = self._strategy.tell_all(secrets.randbits(31))[0]
            if not self._looked:
                self._looked = True
                self._share = file_share(self._strategy, self._dataset)
            policy = self._dataset.options().experimental_distribute.auto_shard_policy
            if self._share is not None or policy is AutoShardPolicy.OFF:
                yield from self._own(seed)
                return
        with self._dataset.iterator(seed=seed) as batches:
            for batch in batches:
                _require_batch(batch)
                rows = _rows(batch)
                if self._workers > 1:
                    self._tell(rows_of_worker(rows, self._parts, self._worker, self._workers))
                if self._parts == 1:
                    yield batch
                elif rows % self._parts == 0:
                    places = range(self._worker, self._parts, self._workers)
                    yield _divided(batch, rows // self._parts, places)
                else:
                    self._warn_of_whole(rows)
                    yield _whole(batch, self._local)

    def _own(self, seed: int) -> Iterator[Any]:
        """Take this worker's part of a global batch of what it reads itself, until all have run out."""
        share = self._share
        self._tell("all of its dataset" if share is None else str(share))
        with ExitStack() as stack:
            own = self._dataset if share is None else share.dataset
            batches: Iterator[Any] = stack.enter_context(own.iterator(seed=seed))
            first = next(batches, None)
            if first is not None:
                _require_batch(first)
                batches = itertools.chain([first], batches)
            # The first batch of a worker with little data may be its last, and short.
            nominal = max(self._strategy.tell_all(0 if first is None else _rows(first)))
            if not nominal:
                return
            if nominal % self._parts:
                self._warn_of_whole(nominal)
            if share is None:
                like = _agreed_like(self._strategy, own, first)
            else:  # this worker's files may be empty: those of all say what a batch is
                like = first if first is not None else _first_batch(self._dataset, seed)
            sizes = batch_sizes_for_worker(nominal, self._workers, self._local, self._worker)
            for batch in stack.enter_context(self._strategy.share_batches(cut(batches, sizes), like)):
                yield _shared(batch, self._local)

    def _tell(self, what: str) -> None:
        if not self._told:
            self._told = True
            log_share(self._strategy, what)

    def _warn_of_whole(self, rows: int) -> None:
        if not self._warned and rows > self._parts:
            self._warned = True
            _log.warning(
                "%d replicas cannot share a batch of %d rows equally: each computes all of it, and it counts "
                "once. Batches of %d or %d rows would be shared.",
                self._parts,
                rows,
                rows - rows % self._parts,
                rows - rows % self._parts + self._parts,
            )


def _spec_of_part(strategy: "Strategy", dataset: Dataset) -> Any:
    if strategy.num_replicas_in_sync == 1:
        return dataset.element_spec
    return jax.tree.map(
        lambda spec: TensorSpec(None if spec.shape is None else (None, *spec.shape[1:]), spec.dtype),
        dataset.element_spec,
    )


def _first_batch(dataset: Dataset, seed: int) -> Any:
    with dataset.iterator(seed=seed) as batches:
        for batch in batches:
            return batch
    raise DatasetError("The dataset has no batch: there is nothing to train or evaluate on.")


class ReplicaBatches:
    """Lets each replica of this worker take a batch of its own in every step.

    At the end, what is left is divided as a global batch is.

    Args:
        strategy: whose replicas take the steps.
        datasets: of this worker: one, whose batches the replicas take in turn, or one for each replica.
    """

    def __init__(self, strategy: "Strategy", datasets: Sequence[Dataset]) -> None:
        self._strategy = strategy
        self._datasets = datasets
        self._told = False

    @property
    def element_spec(self) -> Any:
        """A structure of ``TensorSpec``: of a replica's batch."""
        return _spec_of_part(self._strategy, self._datasets[0])

    def steps(self, seed: int | None = None) -> Iterator[Any]:
        """The steps of one pass.

        Args:
            seed: of shuffles without one.
        """
        strategy, local = self._strategy, self._strategy.local_replicas
        workers = strategy.input_context.num_input_pipelines
        if workers > 1 and not self._told:
            self._told = True
            log_share(strategy, " and ".join(dict.fromkeys(map(describe_share, self._datasets))))
        with ExitStack() as stack:
            opened = [stack.enter_context(dataset.iterator(seed=seed)) for dataset in self._datasets]
            batches = opened[0] if len(opened) == 1 else _in_turn(opened)
            if strategy.num_replicas_in_sync == 1:
                yield from batches
                return
            if workers == 1:
                while group := list(itertools.islice(batches, local)):
                    yield _grouped(group, local)
                return
            first = next(batches, None)
            if first is not None:
                _require_batch(first)
                batches = itertools.chain([first], batches)
            like = _agreed_like(strategy, self._datasets[0], first)
            if like is not None:
                for batch in stack.enter_context(strategy.share_batches(batches, like)):
                    yield _shared(batch, local)


def _agreed_like(strategy: "Strategy", dataset: Dataset, first: Any) -> Any:
    """A batch of the structure of this worker's, without rows if it has none; None if no worker has one.

    Args:
        strategy: whose workers have all come here.
        dataset: of this worker.
        first: its first batch, or None.

    Raises:
        DatasetError: It has no batch, and nothing says what one would be.
    """
    leaves = [(str(np.asarray(leaf).dtype), np.shape(leaf)[1:]) for leaf in jax.tree.leaves(first)]
    told = strategy.tell_all(None if first is None else leaves)
    known = next((each for each in told if each is not None), None)
    if known is None or first is not None:
        return first
    specs, structure = jax.tree.flatten(dataset.element_spec)
    if len(specs) != len(known):
        raise DatasetError(
            f"This worker has no batch, and those of others have {len(known)} components, where its dataset "
            f"says {len(specs)}. All workers must run the same program on data of the same "
            "structure."
        )
    return jax.tree.unflatten(structure, [np.empty((0, *shape), dtype) for dtype, shape in known])


def _in_turn(iterators: Sequence[Iterator[Any]]) -> Iterator[Any]:
    """A batch of each, again and again, until all have ended."""
    left = list(iterators)
    while left:
        ended = []
        for iterator in left:
            batch = next(iterator, None)
            if batch is None:
                ended.append(iterator)
            else:
                yield batch
        left = [iterator for iterator in left if iterator not in ended]


def _shared(batch: Any, local: int) -> Any:
    """What workers have agreed on, for the replicas of this one."""
    if isinstance(batch, Whole):
        return _whole(batch.batch, local)
    return _divided(batch, _rows(batch) // local, range(local))


def _whole(batch: Any, local: int) -> Any:
    return jax.tree.map(lambda leaf: repeated(leaf, local), batch)


def _grouped(group: list[Any], local: int) -> Any:
    shapes = [[np.shape(leaf) for leaf in jax.tree.leaves(batch)] for batch in group]
    if len(group) == local and all(each == shapes[0] for each in shapes):
        return jax.tree.map(lambda *leaves: stacked(list(leaves)), *group)
    batch = jax.tree.map(lambda *leaves: np.concatenate([np.atleast_1d(leaf) for leaf in leaves]), *group)
    if _rows(batch) % local == 0:
        return _divided(batch, _rows(batch) // local, range(local))
    return _whole(batch, local)


def _divided(batch: Any, size: int, places: range) -> Any:
    """The chunks of so many rows at some places, one for each replica of this process."""

    def divide(leaf: Array) -> PerReplica:
        array = np.asarray(leaf)
        chunks = array.reshape(-1, size, *array.shape[1:])
        return PerReplica(chunks[places.start : places.stop : places.step])

    return jax.tree.map(divide, batch)


def _rows(batch: Any) -> int:
    return len(jax.tree.leaves(batch)[0])


def _require_batch(batch: Any) -> None:
    lengths = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(batch)}
    if len(lengths) > 1 and () not in lengths:
        shapes = jax.tree.map(np.shape, batch)
        raise DatasetError(
            f"The components of a batch must be equally long to be shared, got shapes {shapes}."
        )
    if any(np.ndim(leaf) == 0 for leaf in jax.tree.leaves(batch)):
        raise ValueError(
            "The elements of this dataset are not batches. Call the `batch` method on the dataset with the "
            "global batch size, which the replicas share."
        )


def datasets_from_function(
    strategy: "Strategy", dataset_fn: Callable[[InputContext], Dataset], options: InputOptions | None
) -> list[Dataset]:
    """What a function returns for this worker, or for each of its replicas.

    Args:
        strategy: whose replicas read the datasets.
        dataset_fn: called with an InputContext: this worker's, or one for each of its replicas.
        options: say which of the two.

    Raises:
        TypeError: It returns something else.
        ValueError: The options do not go together.
    """
    contexts = [strategy.input_context]
    if options is not None:
        options.check_for_function()
        if options.per_replica:
            local, count = strategy.local_replicas, strategy.num_replicas_in_sync
            first = contexts[0].input_pipeline_id * local
            contexts = [InputContext(count, first + place, count) for place in range(local)]
    datasets = [dataset_fn(context) for context in contexts]
    for dataset in datasets:
        if not isinstance(dataset, Dataset):
            raise TypeError(f"The function must return a Dataset, got {type(dataset).__name__}: {dataset!r}.")
    return datasets
