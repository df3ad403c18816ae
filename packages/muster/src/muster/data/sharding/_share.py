"""Descriptions of the part of a dataset that a worker reads, for logs."""

import os
from collections.abc import Iterator
from itertools import islice

from muster.data._dataset import Dataset
from muster.data.files._files import FileNames
from muster.data.pipeline._elements import Batch
from muster.data.pipeline._flat_map import Interleave
from muster.data.pipeline._node import INFINITE, Node
from muster.data.pipeline._order import Shard

_SHOWN = 3


def describe_share(dataset: Dataset) -> str:
    """Describe the elements that the last `Dataset.shard` of a pipeline keeps, by their numbers before it.

    Returns:
        Text such as ``examples 1, 4, 7, … of 60000``; after `batch`, ``batches 0, 2 of 3``; after
        `Dataset.list_files`, ``files b.csv of 2``. Sharded datasets that were combined are joined by ``and``.
    """
    shares = dict.fromkeys(_share(shard, unit) for shard, unit in _shards(dataset._node))
    return " and ".join(shares) or "all of its dataset, which is not divided by shard()"


def user_shards(dataset: Dataset) -> list[int]:
    """Return `num_shards` of the last `Dataset.shard` in each branch of a pipeline."""
    return [shard.num_shards for shard, _ in _shards(dataset._node)]


def _shards(node: Node, unit: str = "examples") -> Iterator[tuple[Shard, str]]:
    """Yield the last `shard` of the branches of a pipeline, with the unit that it divides."""
    if isinstance(node, Shard):
        yield node, "files" if isinstance(node.source, FileNames) else "batches" if _has_batch(node) else unit
        return
    for source in node.inputs:
        yield from _shards(source, "datasets" if isinstance(node, Interleave) else unit)


def _share(shard: Shard, unit: str) -> str:
    count = shard.source.cardinality
    numbers = shard.numbers
    shown = [str(number) for number in islice(numbers, _SHOWN)]
    if isinstance(shard.source, FileNames):
        shown = [os.path.basename(shard.source.names[number]) for number in islice(numbers, _SHOWN)]
    if len(numbers) > _SHOWN:
        shown.append("…")
    known = "an endless sequence" if count == INFINITE else "an unknown number" if count < 0 else str(count)
    return f"{unit} {', '.join(shown)} of {known}" if shown else f"none of the {count} {unit}"


def _has_batch(node: Node) -> bool:
    return isinstance(node, Batch) or any(map(_has_batch, node.inputs))
