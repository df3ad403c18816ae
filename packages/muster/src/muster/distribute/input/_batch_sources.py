"""Sources of a distributed dataset's batches: a dataset of global batches, or a dataset per worker."""

import contextlib
import functools
import logging
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

from muster._errors import DatasetError
from muster._user_code import no_stop_iteration
from muster.data import AutoShardPolicy, Dataset, TensorSpec, dataset_line
from muster.data.sharding import FileShare, shard_files, user_shards
from muster.distribute.engine._join import joined
from muster.distribute.engine._split import Split, UnevenWarning, cut, row_count, row_counts
from muster.distribute.input._input_context import InputContext
from muster.distribute.input._input_options import InputOptions
from muster.distribute.input._own_input import OwnInput, Pipeline
from muster.distribute.input._synchronized_input import synchronized
from muster.distribute.replicas._values import PerReplica, stacked
from muster.distribute.workers._meeting import digest_of
from muster.distribute.workers._progress import LoopProgress
from muster.distribute.workers._workers import Workers


def file_share(workers: Workers, dataset: Dataset) -> FileShare | None:
    """Return this worker's share of the files of a dataset; None if the workers do not divide files.

    They divide them with FILE, and with AUTO if the dataset reads only files, at least one for each worker.

    Raises:
        DatasetError: The policy is FILE, but there are fewer files than workers, or other sources; or the
            workers have different files; or the policy is HINT.
    """
    policy = dataset.options().experimental_distribute.auto_shard_policy
    if policy is AutoShardPolicy.HINT:
        raise DatasetError(
            "AutoShardPolicy.HINT is not supported: divide the dataset with Dataset.shard, and choose OFF."
        )
    if policy is not AutoShardPolicy.OFF and workers.size in user_shards(dataset):
        _log.warning(
            "The dataset is divided by Dataset.shard, and %s divides the rest among the workers again. "
            "Choose AutoShardPolicy.OFF for a dataset that is divided already.",
            policy.name,
        )
    if policy not in (AutoShardPolicy.FILE, AutoShardPolicy.AUTO):
        return None
    try:
        share = shard_files(dataset, workers.size, workers.rank)
    except DatasetError as exc:
        if policy is AutoShardPolicy.AUTO:
            return None
        raise DatasetError(
            f"AutoShardPolicy.FILE divides the files among the workers: {exc} Choose DATA, or OFF."
        ) from exc
    _require_same_files(workers, share)
    if share.fewest is not None and share.fewest < workers.size:
        if policy is AutoShardPolicy.AUTO:
            return None
        raise DatasetError(
            f"AutoShardPolicy.FILE needs a file for each worker: there are {share.fewest} files, and "
            f"{workers.size} workers. Write the data to more files, or choose DATA, which lets every worker "
            "read all files."
        )
    return share


def _require_same_files(workers: Workers, share: FileShare) -> None:
    first, *rest = workers.all_gather_object([share.fewest, *share.files])
    for other, files in enumerate(rest, start=1):
        if files != first:
            raise DatasetError(
                f"Worker {other} has other files than worker 0: {files[1:]}, and {first[1:]}. All workers "
                "must see the same files to divide them; else choose AutoShardPolicy.OFF."
            )


_log = logging.getLogger(__name__)


class BatchSource(ABC):
    """Provides the batches of a distributed dataset.

    Args:
        workers: The processes.
        local_replicas: The number of replicas of each.
        dataset: A dataset with the structure of the batches.

    Attributes:
        dataset: As given.
        datasets: All datasets that this worker reads.
    """

    def __init__(self, workers: Workers, local_replicas: int, dataset: Dataset) -> None:
        self._workers = workers
        self._split = Split(workers.share_of(local_replicas))
        self.dataset = dataset
        self.datasets: Sequence[Dataset] = [dataset]
        self._logged = False

    @functools.cached_property
    def loop(self) -> LoopProgress | None:
        """Return the reporter of a loop's steps: for the first dataset alone, since others evaluate."""
        workers = self._workers
        if workers.reporter is None or workers.has_loop:
            return None
        workers.has_loop = True
        return LoopProgress(workers.reporter, workers.exchanged)

    def drew(self, batch: Any) -> None:
        """Note that a loop of the user's has drawn a batch."""

        def digest() -> str:
            leaves = jax.tree.leaves(batch, is_leaf=lambda each: isinstance(each, PerReplica))
            return digest_of([each.values if isinstance(each, PerReplica) else each for each in leaves])

        self._workers.drew(self, digest)

    @property
    def element_spec(self) -> Any:
        """A structure of ``TensorSpec``: of a replica's batch."""
        spec = self.dataset.element_spec
        if self._split.replicas == 1:
            return spec
        return jax.tree.map(
            lambda each: TensorSpec(None if each.shape is None else (None, *each.shape[1:]), each.dtype), spec
        )

    @abstractmethod
    def worker_batches(self, seed: int | None = None) -> Iterator[Any]:
        """Yield the worker batch of each step of one pass.

        Args:
            seed: The seed of shuffles that have none, the same on all workers; None for a new one.
        """

    def global_batches(self, seed: int) -> Iterator[Any]:
        """Yield the rows of all replicas for each step of one pass, where workers come and go.

        Args:
            seed: As for ``worker_batches``.

        Raises:
            ValueError: Each worker reads other batches.
        """
        raise ValueError(
            "In an elastic job, fit reads global batches: give it arrays, a Dataset, or what "
            "strategy.experimental_distribute_dataset returns. distribute_datasets_from_function has a "
            "dataset for each worker, of which nobody else would have the batches."
        )

    def steps(self, seed: int | None = None) -> Iterator[Any]:
        """Yield the steps of one pass: per-replica values, or batches if there is only one replica.

        Args:
            seed: As for ``worker_batches``.
        """
        batches = self.worker_batches(seed)
        return batches if self._split.replicas == 1 else map(self._split.per_replica, batches)

    def _log(self, share: str) -> None:
        """Log, once, which part of the input this worker reads."""
        if not self._logged:
            self._logged = True
            _log.info("worker %d of %d reads %s.", self._workers.rank, self._workers.size, share)


class GlobalBatches(BatchSource):
    """Divides the global batches of a dataset among the replicas of all workers.

    With the policy DATA, and with AUTO if no files can be divided, all workers read the same batches, and
    each takes its rows. With FILE each worker reads its share of the files, and with OFF it reads everything;
    then it takes its part of a global batch in each step, until all workers have run out.

    Args:
        workers: The processes.
        local_replicas: The number of replicas of each.
        dataset: A dataset of global batches, the same on all workers.

    Source: tensorflow/python/distribute/input_lib.py; tensorflow/python/data/experimental/ops/distribute.py.
    """

    def __init__(self, workers: Workers, local_replicas: int, dataset: Dataset) -> None:
        super().__init__(workers, local_replicas, dataset)
        self._uneven = UnevenWarning(self._split)
        # The files of this worker are determined once, so that its dataset keeps its caches.
        self._share: FileShare | None = None
        self._looked = False

    def worker_batches(self, seed: int | None = None) -> Iterator[Any]:
        if seed is None:
            # Shuffles without a seed must be the same on all workers, and different in each pass.
            seed = self._workers.common_seed()
        if self._split.has_others:
            if not self._looked:
                self._looked = True
                self._share = file_share(self._workers, self.dataset)
            policy = self.dataset.options().experimental_distribute.auto_shard_policy
            if self._share is not None or policy is AutoShardPolicy.OFF:
                yield from self._worker_steps(seed)
                return
        yield from self._shared_steps(seed)

    def global_batches(self, seed: int) -> Iterator[Any]:
        with OwnInput([Pipeline(self.dataset, seed=seed)]) as batches:
            for batch in batches:
                _require_rows(batch)
                yield batch

    def _shared_steps(self, seed: int | None) -> Iterator[Any]:
        """Yield this worker's rows of batches that all workers read."""
        self._uneven.begin()
        with OwnInput([Pipeline(self.dataset, seed=seed)]) as batches:
            for batch in batches:
                _require_rows(batch)
                if self._split.replicas == 1:
                    yield batch
                    continue
                if self._split.has_others:
                    self._log(self._split.describe(min(row_counts(batch))))
                self._uneven.see(batch)
                yield self._split.worker_batch(batch)

    def _worker_steps(self, seed: int | None) -> Iterator[Any]:
        """Yield this worker's part of a global batch from the data that it reads, until all have run out."""
        share, split, workers = self._share, self._split, self._workers
        self._log("all of its dataset" if share is None else str(share))
        pipeline = Pipeline(self.dataset if share is None else share.dataset, seed=seed)
        with contextlib.closing(pipeline):
            first = pipeline.first
            if first is not None:
                _require_batch(first)
            # The first batch of a worker with little data may be its last, and short.
            counts = workers.all_gather_object(0 if first is None else row_count(first))
            if not (nominal := max(counts)):
                return
            if nominal % split.replicas:
                self._uneven.warn(nominal)
            if share is None:
                example = _example_for_all(workers, pipeline.dataset, first)
            else:  # if this worker's files are empty, the files of all workers have an example
                example = first if first is not None else _first_batch(self.dataset, seed)
            pipeline.batches = cut(pipeline.batches, split.batch_sizes(nominal))
            pieces = OwnInput([pipeline], split.local_replicas)
            pieces.example = example
            with synchronized(workers, split.local_replicas, pieces) as steps:
                yield from steps


class ReplicaBatches(BatchSource):
    """Gives each replica of this worker a batch in every step.

    At the end, the rows that are left are divided among the replicas, as those of a global batch are.

    Args:
        workers: The processes.
        local_replicas: The number of replicas of each.
        datasets: The datasets of this worker: one, whose batches the replicas take in turn, or one for each
            replica.
    """

    def __init__(self, workers: Workers, local_replicas: int, datasets: Sequence[Dataset]) -> None:
        super().__init__(workers, local_replicas, datasets[0])
        self.datasets = datasets

    def worker_batches(self, seed: int | None = None) -> Iterator[Any]:
        split, workers = self._split, self._workers
        if seed is None:
            seed = None if workers.size > 1 else workers.common_seed()
        if seed is None and workers.size > 1:
            # A worker's own: Python's random numbers may be the chief's, and its data another worker's.
            seed = secrets.randbits(31)
        with self._opened(seed) as batches:
            if workers.size == 1:
                yield from batches if split.replicas == 1 else map(self._joined, _groups(batches))
                return
            if not self._logged:
                self._log(batches.share)
            if batches.first is not None:
                _require_batch(batches.first)
            batches.example = _example_for_all(workers, self.datasets[0], batches.first)
            if batches.example is not None:
                with synchronized(workers, split.local_replicas, batches) as steps:
                    yield from steps

    def steps(self, seed: int | None = None) -> Iterator[Any]:
        if self._split.has_others or self._split.replicas == 1:
            yield from super().steps(seed)
            return
        seed = self._workers.common_seed() if seed is None else seed
        with self._opened(seed) as batches:
            for group in _groups(batches):
                yield _grouped(group, self._split)

    def _joined(self, group: list[Any]) -> Any:
        """Return the rows of a group as a worker batch."""
        return self._split.worker_batch(_concatenated(group))

    def _opened(self, seed: int | None) -> OwnInput:
        """Open the datasets: a step takes a batch for each replica of this worker."""
        with contextlib.ExitStack() as undo:
            pipelines = []
            for dataset in self.datasets:
                pipelines.append(pipeline := Pipeline(dataset, seed=seed))
                undo.callback(pipeline.close)
            opened = OwnInput(pipelines, self._split.local_replicas // len(pipelines))
            undo.pop_all()
        return opened


def _example_for_all(workers: Workers, dataset: Dataset, first: Any) -> Any:
    """Return this worker's first batch; without one, a batch without rows; None if no worker has a batch.

    Args:
        workers: The processes, which all call this.
        dataset: The dataset of this worker.
        first: Its first batch, or None.

    Raises:
        DatasetError: This worker has no batch, and its dataset has other components than those of others.
    """
    leaves = [(str(np.asarray(leaf).dtype), np.shape(leaf)[1:]) for leaf in jax.tree.leaves(first)]
    gathered = workers.all_gather_object(None if first is None else leaves)
    kinds = next((each for each in gathered if each is not None), None)
    if kinds is None or first is not None:
        return first
    specs, structure = jax.tree.flatten(dataset.element_spec)
    if len(specs) != len(kinds):
        raise DatasetError(
            f"This worker has no batch, and those of others have {len(kinds)} components, where its dataset "
            f"says {len(specs)}. All workers must run the same program on data of the same "
            "structure."
        )
    return jax.tree.unflatten(structure, [np.empty((0, *shape), dtype) for dtype, shape in kinds])


def _first_batch(dataset: Dataset, seed: int | None) -> Any:
    with dataset.iterator(seed=seed) as batches:
        for batch in batches:
            return batch
    raise DatasetError("The dataset has no batch: there is nothing to train or evaluate on.")


def _groups(batches: OwnInput) -> Iterator[list[Any]]:
    """Yield a batch for each replica of a worker; fewer at the end."""
    with contextlib.suppress(StopIteration):
        while True:
            yield batches.next_batches()


def _grouped(group: list[Any], split: Split) -> Any:
    """Return a batch for each replica as per-replica values; divide all rows anew if shapes differ."""
    shapes = [[np.shape(leaf) for leaf in jax.tree.leaves(batch)] for batch in group]
    if len(group) == split.local_replicas and all(each == shapes[0] for each in shapes):
        return jax.tree.map(lambda *leaves: stacked(list(leaves)), *group)
    return split.per_replica(split.worker_batch(_concatenated(group)))


def _concatenated(group: list[Any]) -> Any:
    return joined([jax.tree.map(np.atleast_1d, batch) for batch in group])


def _require_batch(batch: Any) -> None:
    lengths = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(batch)}
    if len(lengths) > 1 and () not in lengths:
        shapes = jax.tree.map(np.shape, batch)
        raise DatasetError(
            f"The components of a batch must be equally long to be shared, got shapes {shapes}."
        )
    _require_rows(batch)


def _require_rows(batch: Any) -> None:
    if any(getattr(leaf, "ndim", 0) == 0 for leaf in jax.tree.leaves(batch)):
        raise ValueError(
            "The elements of this dataset are not batches. Call the `batch` method on the dataset with the "
            "global batch size, which the replicas share."
        )


def datasets_from_function(
    context: InputContext,
    local_replicas: int,
    dataset_fn: Callable[[InputContext], Dataset],
    options: InputOptions | None,
) -> list[Dataset]:
    """Return the dataset of this worker, or the datasets of its replicas.

    Args:
        context: The context of this worker.
        local_replicas: The number of its replicas.
        dataset_fn: Called with the InputContext of this worker, or with one for each of its replicas.
        options: Their mode chooses between the two.

    Raises:
        TypeError: The function does not return a Dataset.
        ValueError: The options contradict each other.
    """
    contexts = [context]
    if options is not None:
        options.check_for_function()
        if options.per_replica:
            count = context.num_replicas_in_sync
            first = context.input_pipeline_id * local_replicas
            contexts = [InputContext(count, first + place, count) for place in range(local_replicas)]
    with no_stop_iteration("The dataset function", DatasetError):
        datasets = [dataset_fn(each) for each in contexts]
    for dataset in datasets:
        if not isinstance(dataset, Dataset):
            raise TypeError(
                f"The function must return a Dataset, got {type(dataset).__name__}: {dataset!r}."
                f"{dataset_line(dataset)}"
            )
    return datasets
