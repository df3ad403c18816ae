"""Divides the files of a dataset among workers."""

import logging

from muster._errors import DatasetError
from muster.data import AutoShardPolicy, Dataset
from muster.data.sharding import FileShare, shard_files, user_shards
from muster.distribute.workers._workers import Workers

_log = logging.getLogger(__name__)


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
