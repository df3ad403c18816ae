"""Which files of a pipeline each of several workers reads.

Source: tensorflow/core/grappler/optimizers/data/auto_shard.cc. Departs in that the names of files are divided
before they are shuffled or repeated, so that a worker reads the same files in each pass.
"""

import os
from dataclasses import dataclass
from typing import NamedTuple

from muster._errors import DatasetError
from muster.data._dataset import Dataset
from muster.data.files._files import FileSource
from muster.data.pipeline._cache import Cache
from muster.data.pipeline._flat_map import Interleave
from muster.data.pipeline._node import Node, Run, unstacked
from muster.data.pipeline._order import Repeat, Shard
from muster.data.pipeline._prefetch import Prefetch
from muster.data.pipeline._shuffle import Shuffle

_SHOWN = 3


@dataclass(frozen=True)
class FileShare:
    """What one of several workers reads of a dataset of files.

    Attributes:
        dataset: reads its files only.
        names: those of its first files, for people.
        own: how many they are; None if that is not known.
        total: how many files there are; None if that is not known.
        fewest: likewise, of the source that has the fewest, where there are several.
        files: which files they are that are divided, in short: equal for all workers.
    """

    dataset: Dataset
    names: tuple[str, ...]
    own: int | None
    total: int | None
    fewest: int | None
    files: tuple[str, ...]

    def __str__(self) -> str:
        shown = ", ".join(self.names)
        if self.own is None:
            return f"files {shown}, … of an unknown number"
        more = ", …" if self.own > len(self.names) else ""
        return (
            f"files {shown}{more}: {self.own} of {self.total}" if self.own else f"none of {self.total} files"
        )


def shard_files(dataset: Dataset, num_shards: int, index: int) -> FileShare:
    """Let a dataset read the i-th of its files where ``i % num_shards == index``.

    Files are what file datasets are given, and, before an `interleave` or `flat_map` whose function makes
    datasets of files, its elements.

    Args:
        dataset: reads files.
        num_shards: how many workers there are.
        index: which of them this is.

    Raises:
        DatasetError: Not all that it reads are files.
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
    """A source whose files were divided: the names of the first ones, all of them in short, how many."""

    names: list[str]
    label: str
    total: int | None


def _divided(node: Node, num_shards: int, index: int, found: list[_Divided]) -> Node:
    if isinstance(node, FileSource):
        own = node.files[index::num_shards]
        found.append(_Divided([os.path.basename(path) for path in own[:_SHOWN]], node.label, len(node.files)))
        return node.with_files(own)
    if isinstance(node, Interleave) and _makes_files(node):
        return node.with_inputs([_divided_names(node.inputs[0], num_shards, index, found)])
    if not node.inputs:
        raise DatasetError(f"{node.description} reads no files.")
    return node.with_inputs([_divided(source, num_shards, index, found) for source in node.inputs])


def _makes_files(node: Interleave) -> bool:
    """Whether a function makes datasets of files of its elements."""
    made = node.first()
    return made is not None and _reads_files(made)


def _reads_files(node: Node) -> bool:
    if isinstance(node, FileSource) or (isinstance(node, Interleave) and _makes_files(node)):
        return True
    return any(map(_reads_files, node.inputs))


def _divided_names(node: Node, num_shards: int, index: int, found: list[_Divided]) -> Node:
    # Below what only repeats and orders them, so that a worker has the same ones each time.
    if isinstance(node, Repeat | Shuffle | Cache | Prefetch):
        return node.with_inputs([_divided_names(node.inputs[0], num_shards, index, found)])
    shard = Shard(node, num_shards, index)
    total = None if node.cardinality < 0 else node.cardinality
    found.append(_Divided(_first_names(shard), node.description, total))
    return shard


def _first_names(node: Node) -> list[str]:
    run = Run.peek(node)
    stream = node.open(run, ())
    try:
        handles = stream.pull(_SHOWN)
        elements = unstacked(node.load(run, handles)) if len(handles) else []
    finally:
        stream.close()
    return [os.path.basename(os.fsdecode(e)) if isinstance(e, str | bytes) else str(e) for e in elements]
