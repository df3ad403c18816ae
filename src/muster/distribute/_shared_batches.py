"""Batches of several workers: all take the same number of steps, and no example is lost."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from muster.distribute._agreement import require_equal

Array = Any


@jax.tree_util.register_dataclass
@dataclass
class Whole:
    """A batch that every replica is given whole, and that counts once.

    Attributes:
        batch: a nested structure of arrays, the same on every worker.
    """

    batch: Any


def batches_for_replicas(batches: Iterator[Any], replicas: int) -> Iterator[Any]:
    """Let each replica of this process take a batch of its own in every step, as an Estimator's replicas do.

    Args:
        batches: nested structures of arrays with the same first axis, per replica.
        replicas: how many replicas this process has.

    Yields:
        As many batches as there are replicas, one after the other along the first axis; fewer at the end.

    Source: tensorflow_estimator/python/estimator/estimator.py, ``_get_iterator_from_input_fn``.
    """
    while group := list(itertools.islice(batches, replicas)):
        yield group[0] if len(group) == 1 else jax.tree.map(_concatenated, *group)


def _concatenated(*parts: Array) -> Array:
    return np.concatenate(parts) if np.ndim(parts[0]) else parts[0]


class SharedBatches:
    """Lets workers take their steps together until all of them have run out of batches.

    Before each step they tell each other how many rows they have, and whether they go on. Where all have as
    many, each takes its own batch. Else, as at the end of the data, all of them take the rows of all.

    Args:
        batches: of this worker: nested structures of arrays with the same first axis.
        first: one of them, for its structure.
        tasks: the names of the workers; each iterates over its own.

    Raises:
        MismatchError: on every worker, if their batches differ in structure, type or shape of a row.
    """

    def __init__(self, batches: Iterator[Any], first: Any, tasks: list[str]) -> None:
        self._batches = batches
        self._workers = len(tasks)
        require_equal("batches", _rows_of(first), tasks)
        leaves, self._structure = jax.tree.flatten(first)
        self._row_shapes = [(np.shape(leaf)[1:], np.asarray(leaf).dtype) for leaf in leaves]
        self._ended = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        """This worker's next batch, or a ``Whole`` one of all.

        Raises:
            StopIteration: on all workers, when none has a batch left, or one has stopped.
        """
        if self._ended:
            raise StopIteration
        batch = next(self._batches, None)
        leaves = jax.tree.leaves(batch)
        rows = np.shape(leaves[0])[0] if leaves else 0
        counts = self._exchange(rows)
        if not counts.any() or counts.min() < 0:
            self._ended = True
            raise StopIteration
        if (counts == rows).all():
            return batch
        return Whole(self._gather(leaves, counts))

    def stop(self) -> None:
        """Tell the others that this worker takes no further step, unless all have ended."""
        if not self._ended:
            self._ended = True
            self._exchange(-1)

    def _exchange(self, rows: int) -> Array:
        """Tell the others a number, and learn theirs: int32, shape (workers,)."""
        told = multihost_utils.process_allgather(np.array([rows], np.int32))
        return np.asarray(told).reshape(self._workers)

    def _gather(self, leaves: list[Array], counts: Array) -> Any:
        """The rows of all workers, one worker's after the other's, on each of them."""
        most = int(counts.max())
        gathered = []
        for i, (shape, dtype) in enumerate(self._row_shapes):
            padded = np.zeros((most, *shape), dtype)
            if leaves:
                padded[: len(leaves[i])] = leaves[i]
            told = np.asarray(multihost_utils.process_allgather(padded)).reshape(self._workers, most, *shape)
            gathered.append(np.concatenate([told[w, :count] for w, count in enumerate(counts)]))
        return jax.tree.unflatten(self._structure, gathered)


def _rows_of(batch: Any) -> list[str]:
    """The structure of a batch without its number of rows."""
    return [
        f"{jax.tree_util.keystr(path).removeprefix('.')}: {np.asarray(leaf).dtype}{list(np.shape(leaf)[1:])}"
        for path, leaf in jax.tree_util.tree_leaves_with_path(batch)
    ]
