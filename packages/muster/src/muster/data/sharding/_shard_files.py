"""Division of the files of a pipeline among workers.

Source: tensorflow/core/grappler/optimizers/data/auto_shard.cc. Here names of files are divided before they
are shuffled or repeated, so that a worker reads the same files in each pass.
"""

import os
from dataclasses import dataclass
from typing import NamedTuple

from muster._errors import DatasetError
from muster.data._dataset import Dataset
from muster.data.files._element_files import FileCache
from muster.data.files._files import FileSource
from muster.data.pipeline._cache import Cache
from muster.data.pipeline._flat_map import Interleave
from muster.data.pipeline._node import Node
from muster.data.pipeline._order import Repeat, Shard
from muster.data.pipeline._prefetch import Prefetch
from muster.data.pipeline._shuffle import Shuffle

_SHOWN = 3


@dataclass(frozen=True)
class FileShare:
    """The files of a dataset that one worker reads.

    Attributes:
        dataset: A dataset that reads only these files.
        names: The names of the first of these files, for messages.
        count: The number of these files, or None if unknown.
        total: The number of files of all workers, or None if unknown.
        fewest: The number of files of the source that has the fewest, or None if unknown.
        files: Labels of the divided sources: equal on all workers.
    """

    dataset: Dataset
    names: tuple[str, ...]
    count: int | None
    total: int | None
    fewest: int | None
    files: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(self.names)
        if self.count is None:
            return f"files {shown}, … of an unknown number"
        more = ", …" if self.count > len(self.names) else ""
        return (
            f"files {shown}{more}: {self.count} of {self.total}"
            if self.count
            else f"none of {self.total} files"
        )


def shard_files(dataset: Dataset, num_shards: int, index: int) -> FileShare:
    """Restrict a dataset to every `num_shards`-th of its files, from number `index` on.

    A file is a path that was given to a dataset such as `TFRecordDataset`, or an element that `interleave` or
    `flat_map` maps to such a dataset.

    Args:
        dataset: A dataset that reads files.
        num_shards: The number of workers.
        index: The number of this worker.

    Raises:
        DatasetError: The dataset has a source without files.
    """
    sources: list[_Divided] = []
    node = _divided(dataset._node, num_shards, index, sources)
    totals = [source.total for source in sources]
    known = [total for total in totals if total is not None]
    unknown = len(known) < len(totals)
    return FileShare(
        Dataset(node, dataset.options()),
        tuple(name for source in sources for name in source.names)[:_SHOWN],
        None if unknown else sum(len(range(index, total, num_shards)) for total in known),
        None if unknown else sum(known),
        None if unknown else min(known),
        tuple(source.label for source in sources),
    )


class _Divided(NamedTuple):
    """A source of divided files: this worker's first names, the label of all files, their number."""

    names: list[str]
    label: str
    total: int | None


def _divided(node: Node, num_shards: int, index: int, found: list[_Divided]) -> Node:
    if isinstance(node, FileSource):
        files = node.files[index::num_shards]
        names = [os.path.basename(path) for path in files[:_SHOWN]]
        found.append(_Divided(names, node.label, len(node.files)))
        return node.with_files(files)
    if isinstance(node, Interleave) and _makes_files(node):
        return node.with_inputs([_divided_names(node.inputs[0], num_shards, index, found)])
    if isinstance(node, FileCache):
        return node.of_share(_divided(node.source, num_shards, index, found), num_shards, index)
    if not node.inputs:
        raise DatasetError(f"{node.description} reads no files.")
    return node.with_inputs([_divided(source, num_shards, index, found) for source in node.inputs])


def _makes_files(node: Interleave) -> bool:
    """Return whether the function returns datasets of files."""
    made = node.first()
    return made is not None and _reads_files(made)


def _reads_files(node: Node) -> bool:
    if isinstance(node, FileSource) or (isinstance(node, Interleave) and _makes_files(node)):
        return True
    return any(map(_reads_files, node.inputs))


def _divided_names(node: Node, num_shards: int, index: int, found: list[_Divided]) -> Node:
    # Before operations that repeat and order the names, so that a worker has the same ones in each pass.
    if isinstance(node, Repeat | Shuffle | Cache | Prefetch):
        return node.with_inputs([_divided_names(node.inputs[0], num_shards, index, found)])
    shard = Shard(node, num_shards, index)
    total = None if node.cardinality < 0 else node.cardinality
    first = shard.peek(_SHOWN)
    names = [os.path.basename(os.fsdecode(e)) if isinstance(e, str | bytes) else str(e) for e in first]
    found.append(_Divided(names, node.description, total))
    return shard
