"""How the batches of a dataset are divided among workers, and what each says of its share."""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from muster._errors import DatasetError
from muster.data import AutoShardPolicy, Dataset, FileShare, shard_files, user_shards

if TYPE_CHECKING:
    from muster.distribute.strategies._strategy import Strategy

_log = logging.getLogger(__name__)


def file_share(strategy: "Strategy", dataset: Dataset) -> FileShare | None:
    """The files that this worker reads of a dataset; None if the workers do not divide files.

    With FILE they do; with AUTO if the dataset reads nothing else than files, as many as workers at least.

    Raises:
        DatasetError: FILE, and there are fewer files than workers, or other sources; or the workers have
            different files; or the policy is HINT.
    """
    context = strategy.input_context
    workers, worker = context.num_input_pipelines, context.input_pipeline_id
    policy = dataset.options().experimental_distribute.auto_shard_policy
    if policy is AutoShardPolicy.HINT:
        raise DatasetError(
            "AutoShardPolicy.HINT is not there: divide the dataset with Dataset.shard, and choose OFF."
        )
    if policy is not AutoShardPolicy.OFF and workers in user_shards(dataset):
        _log.warning(
            "The dataset is divided by Dataset.shard, and %s divides what is left among the workers again. "
            "Choose AutoShardPolicy.OFF for a dataset that is divided already.",
            policy.name,
        )
    if policy not in (AutoShardPolicy.FILE, AutoShardPolicy.AUTO):
        return None
    try:
        share = shard_files(dataset, workers, worker)
    except DatasetError as exc:
        if policy is AutoShardPolicy.AUTO:
            return None
        raise DatasetError(
            f"AutoShardPolicy.FILE gives each worker files of its own: {exc} Choose DATA, or OFF."
        ) from exc
    told = strategy.tell_all([share.fewest, *share.files])
    for other, files in enumerate(told):
        if files != told[0]:
            raise DatasetError(
                f"Worker {other} has other files than worker 0: {files[1:]}, and {told[0][1:]}. All workers "
                "must see the same files to divide them; else choose AutoShardPolicy.OFF."
            )
    if share.fewest is not None and share.fewest < workers:
        if policy is AutoShardPolicy.AUTO:
            return None
        raise DatasetError(
            f"AutoShardPolicy.FILE needs a file for each worker: there are {share.fewest} files, and "
            f"{workers} workers. Write the data to more files, or choose DATA, which lets every worker read "
            "all files."
        )
    return share


def log_share(strategy: "Strategy", what: str) -> None:
    """Say which part of the input this worker reads."""
    context = strategy.input_context
    _log.info("worker %d of %d reads %s.", context.input_pipeline_id, context.num_input_pipelines, what)


def rows_of_worker(rows: int, parts: int, worker: int, workers: int) -> str:
    """Which rows of each batch are a worker's, in words, where chunk ``i`` is worker ``i % workers``'s."""
    if rows % parts:
        return f"all of its dataset, in batches of {rows} that are computed as a whole"
    own = np.arange(rows).reshape(parts, -1)[worker::workers].ravel()
    shown = ", ".join(map(str, own[:3])) + (", …" if len(own) > 3 else "")
    return f"all of its dataset, and computes examples {shown} of each {rows}"


def batch_sizes_for_worker(global_batch: int, workers: int, replicas: int, worker: int) -> list[int]:
    """How many examples the replicas of a worker take, of a global batch in each step.

    Args:
        global_batch: of all workers.
        workers: how many there are.
        replicas: of each worker.
        worker: which of them it is.

    Returns:
        The sizes for one replica after the other, and step after step, until they repeat. They differ by at
        most one, and those of all workers in a step add up to the global batch.

    Source: tensorflow/python/data/experimental/ops/distribute.py, ``batch_sizes_for_worker``.
    """
    parts = workers * replicas
    small, larger = divmod(global_batch, parts)
    return [small + ((worker * replicas + place) % parts < larger) for place in range(parts)]


def cut(batches: Iterator[Any], sizes: list[int]) -> Iterator[Any]:
    """Cut each batch into pieces of these sizes, begun anew with each batch; what is left is the last piece.

    Args:
        batches: nested structures of arrays with the same first axis.
        sizes: as of `batch_sizes_for_worker`.
    """
    wanted = [size for size in sizes if size]
    for batch in batches:
        leaves, structure = jax.tree.flatten(batch)
        start, place = 0, 0
        while start < len(leaves[0]):
            stop = start + wanted[place % len(wanted)]
            yield jax.tree.unflatten(structure, [leaf[start:stop] for leaf in leaves])
            start, place = stop, place + 1
