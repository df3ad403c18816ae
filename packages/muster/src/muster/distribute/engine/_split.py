"""Divides the rows of a batch among replicas, in one order.

Replica ``r`` of ``R`` takes the ``r``-th of ``R`` equal runs of rows; the replicas of worker ``w`` come
before those of worker ``w + 1``. So results per row, gathered in the order of the replicas, are in the order
of the input. If the rows cannot be shared equally, the runs differ by one row, the longer ones first. A batch
with fewer rows than replicas, or without rows, is replicated: each computes all of it, and it counts once.
Components of different lengths, as of a dataset of pairs of batches, are divided each on its own; if one of
them cannot be shared equally, the batch is replicated.

A *worker batch* is what one worker takes in a step: its rows of the global batch if they are shared equally,
an ``UnevenBatch`` or a ``ReplicatedBatch``.
"""

import itertools
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from muster._arrays import AnyArray
from muster.distribute.replicas._values import PerReplica, ReplicaKind, replicated
from muster.distribute.workers._workers import ReplicaShare

_log = logging.getLogger(__name__)


@jax.tree_util.register_dataclass
@dataclass
class ReplicatedBatch:
    """A batch that every replica computes completely, and that counts once.

    Attributes:
        batch: A nested structure of arrays, the same on every worker.
    """

    batch: Any


@jax.tree_util.register_dataclass
@dataclass
class UnevenBatch:
    """A global batch whose rows the replicas cannot share equally; there is at least one for each replica.

    Attributes:
        batch: A nested structure of arrays, the same on every worker, with the rows of all: in the memory of
            the host. An engine gives each device its rows.
    """

    batch: Any

    @property
    def rows(self) -> int:
        """The number of rows."""
        return row_count(self.batch) or 0


def unwrapped(batch: Any) -> Any:
    """Return the arrays of a worker batch, whether it is shared equally or not."""
    return batch.batch if isinstance(batch, ReplicatedBatch | UnevenBatch) else batch


def sizes_of(rows: int, parts: int) -> tuple[int, ...]:
    """Divide a number of rows into parts that differ by one at most; the larger ones come first."""
    small, larger = divmod(rows, parts)
    return (small + 1,) * larger + (small,) * (parts - larger)


def filled_up(rows: int, parts: int) -> tuple[int, ...]:
    """Divide a number of rows so that all parts are equal but for the last ones: as XLA shards an axis."""
    size = -(-rows // parts)
    return tuple(min(size, max(0, rows - size * part)) for part in range(parts))


@dataclass(frozen=True)
class Split:
    """Divides global batches among the replicas of a job, as one of its workers does.

    Attributes:
        share: The replicas of this worker. It is asked anew each time: where workers come and go, it changes.
    """

    share: ReplicaShare = field(default_factory=ReplicaShare)

    @classmethod
    def alone(cls, replicas: int) -> "Split":
        """Return the division among the replicas of one process, the only one."""
        return cls(ReplicaShare(0, replicas, replicas))

    @property
    def replicas(self) -> int:
        """The number of replicas over all workers."""
        return self.share.total

    @property
    def local_replicas(self) -> int:
        """The number of replicas of this worker."""
        return self.share.count

    @property
    def has_others(self) -> bool:
        """True if there are replicas of other workers."""
        return self.share.count < self.share.total

    @property
    def own(self) -> slice:
        """The numbers of this worker's replicas."""
        return slice(self.share.first, self.share.first + self.share.count)

    def rows(self, count: int) -> slice:
        """Return the slice of ``count`` rows that is this worker's."""
        sizes, first = sizes_of(count, self.replicas), self.share.first
        start = sum(sizes[:first])
        return slice(start, start + sum(sizes[first : first + self.local_replicas]))

    def worker_batch(self, batch: Any) -> Any:
        """Return this worker's rows of a global batch, or the batch wrapped if it cannot be shared equally.

        Args:
            batch: A nested structure of arrays, the same on every worker; numbers without rows stay.
        """
        if self.replicas == 1:
            return batch
        counts = row_counts(batch)
        if not counts or min(counts) < self.replicas:
            return ReplicatedBatch(batch)
        if any(count % self.replicas for count in counts):
            return UnevenBatch(batch) if len(counts) == 1 else ReplicatedBatch(batch)
        if not self.has_others:
            return batch
        return jax.tree.map(lambda leaf: leaf[self.rows(len(leaf))] if np.ndim(leaf) else leaf, batch)

    def per_replica(self, batch: Any) -> Any:
        """Divide a worker batch into per-replica values.

        Args:
            batch: A worker batch, of arrays with rows.

        Returns:
            The same structure, of ``PerReplica``.
        """
        count = self.local_replicas
        if isinstance(batch, ReplicatedBatch):
            return jax.tree.map(lambda leaf: replicated(leaf, count), batch.batch)
        if isinstance(batch, UnevenBatch):
            return jax.tree.map(self._unequal_parts, batch.batch)

        def divided(leaf: AnyArray) -> PerReplica:
            array = np.asarray(leaf)
            return PerReplica(array.reshape(count, len(array) // count, *array.shape[1:]))

        return jax.tree.map(divided, batch)

    def _unequal_parts(self, leaf: AnyArray) -> PerReplica:
        """Divide an array with the rows of all workers, which replicas cannot share equally."""
        array = np.asarray(leaf)
        sizes = sizes_of(len(array), self.replicas)
        shapes = tuple((size, *array.shape[1:]) for size in sizes)
        kind = ReplicaKind(sizes=sizes, shapes=shapes, first=self.share.first)
        return PerReplica(padded_rows(array, sizes, self), kind)

    def batch_sizes(self, global_batch: int) -> list[int]:
        """Return how many examples each of this worker's replicas takes of global batches.

        Args:
            global_batch: The number of examples in a step, over all workers.

        Returns:
            The sizes, replica by replica and step by step, until they repeat. They differ by at most one,
            and those of all workers in a step add up to the global batch.

        Source: tensorflow/python/data/experimental/ops/distribute.py, ``batch_sizes_for_worker``.
        """
        small, larger = divmod(global_batch, self.replicas)
        first = self.share.first
        return [small + ((first + place) % self.replicas < larger) for place in range(self.replicas)]

    def describe(self, count: int) -> str:
        """Describe, for the log, the rows that this worker computes of each batch of ``count``."""
        if count < self.replicas:
            return f"all of its dataset, in batches of {count} that every replica computes"
        rows = range(count)[self.rows(count)]
        shown = ", ".join(map(str, rows[:3])) + (", …" if len(rows) > 3 else "")
        return f"all of its dataset, and computes examples {shown} of each {count}"


def padded_rows(array: np.ndarray[Any, Any], sizes: tuple[int, ...], split: Split) -> np.ndarray[Any, Any]:
    """Divide the rows of all replicas, and return those of a worker's, padded to the largest size.

    Args:
        array: Shape (sum of the sizes, ...).
        sizes: The number of rows of each replica, over all workers.
        split: Says which replicas are the worker's.

    Returns:
        Shape (replicas of the worker, largest size, ...).
    """
    starts = [*itertools.accumulate(sizes, initial=0)][split.own]
    data = np.zeros((split.local_replicas, max(sizes), *array.shape[1:]), array.dtype)
    for part, start, size in zip(data, starts, sizes[split.own], strict=True):
        part[:size] = array[start : start + size]
    return data


class UnevenWarning:
    """Warns once of batches that the replicas cannot share equally, unless they are the last of the data.

    Args:
        split: How batches are divided.
    """

    def __init__(self, split: Split) -> None:
        self._split = split
        self._seen = 0
        self._warned = False

    def begin(self) -> None:
        """Begin a pass over the data."""
        self._seen = 0

    def see(self, batch: Any) -> None:
        """Take note of a batch."""
        replicas, counts = self._split.replicas, row_counts(batch)
        if self._warned or (counts and not any(count % replicas for count in counts)):
            return
        self._seen += 1
        if self._seen == 2:  # the first one was not the last batch of the data
            count = min((count for count in counts if count % replicas), default=1)
            self.warn(count, whole=len(counts) > 1)

    def warn(self, count: int, *, whole: bool = False) -> None:
        """Warn of batches of ``count`` rows, once.

        Args:
            count: The number of rows.
            whole: Whether each replica computes all rows.
        """
        if self._warned:
            return
        self._warned = True
        replicas = self._split.replicas
        lower = count - count % replicas
        _log.warning(
            "%d replicas cannot share a batch of %d rows equally: %s. Batches of %s rows would be shared "
            "equally.",
            replicas,
            count,
            "each computes all of it, and it counts once"
            if whole or count < replicas
            else f"{count % replicas} of them take a row more than the others",
            " or ".join(str(rows) for rows in (lower, lower + replicas) if rows),
        )


class WholeWarning:
    """Warns once that each replica computes all rows of uneven batches, since code cannot run on its own."""

    def __init__(self) -> None:
        self._warned = False

    def warn(self, reason: BaseException) -> None:
        """Warn, if this is the first time.

        Args:
            reason: The error of the code on different numbers of rows.
        """
        if not self._warned:
            self._warned = True
            _log.warning(
                "Each replica computes all rows of a batch that the replicas cannot share equally, and they "
                "count once: that takes the memory and the time of the whole batch on every device. Datasets "
                "that are batched with drop_remainder=True have no such batch. The code cannot run on "
                "different numbers of rows: %s: %s",
                type(reason).__name__,
                str(reason).partition("\n")[0],
            )


def row_count(batch: Any) -> int | None:
    """Return the number of rows of all arrays of a batch; None if it has none, or they differ."""
    counts = row_counts(batch)
    return counts.pop() if len(counts) == 1 else None


def row_counts(batch: Any) -> set[int]:
    """Return the numbers of rows that the arrays of a batch have."""
    return {np.shape(leaf)[0] for leaf in jax.tree.leaves(batch) if np.ndim(leaf)}


def cut(batches: Iterator[Any], sizes: list[int]) -> Iterator[Any]:
    """Cut each batch into pieces of these sizes, from the first size on; the rest is the last piece.

    Args:
        batches: Nested structures of arrays with the same first axis.
        sizes: As ``Split.batch_sizes`` returns them.
    """
    wanted = [size for size in sizes if size]
    for batch in batches:
        leaves, structure = jax.tree.flatten(batch)
        start, number = 0, 0
        while start < len(leaves[0]):
            stop = start + wanted[number % len(wanted)]
            yield jax.tree.unflatten(structure, [leaf[start:stop] for leaf in leaves])
            start, number = stop, number + 1
