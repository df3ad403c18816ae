"""Batches of several workers: all take the same number of steps, and no example is lost."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import numpy as np

from muster.distribute.workers._link import Link

Array = Any


class Signals(Protocol):
    """Ctrl-C and SIGTERM, noted until the workers have agreed on them.

    Attributes:
        received: the number of the signal that was noted, or None.
        waiting: whether one is raised as soon as it comes.
        shared: whether several workers have to agree on it before it is raised.
        aborted: whether a second one was raised.
    """

    received: int | None
    waiting: bool
    shared: bool
    aborted: bool

    def raise_received(self) -> None:
        """Raise what was noted, if anything."""


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
    many, which their replicas can share, each takes its own batch. Else, as at the end of the data, all of
    them take the rows of all.
    Where one was interrupted, all of them are, after the same step.

    Args:
        batches: of this worker: nested structures of arrays with the same first axis.
        first: one of them, for its structure.
        link: connects the workers; each iterates over its own batches.
        signals: what interrupts this worker; None leaves that to others.
        replicas: how many of them share the batch of a worker.

    Attributes:
        interrupted: whether the workers have agreed to end early.

    Raises:
        MismatchError: on every worker, if their batches differ in structure, type or shape of a row.
    """

    def __init__(
        self, batches: Iterator[Any], first: Any, link: Link, signals: Signals | None, replicas: int = 1
    ) -> None:
        self._batches = batches
        self._replicas = replicas
        self._link = link
        link.require_equal("batches", _rows_of(first))
        leaves, self._structure = jax.tree.flatten(first)
        self._like = [np.asarray(leaf)[:1] if np.ndim(leaf) else np.asarray(leaf) for leaf in leaves]
        self._ended = False
        self.interrupted = False
        self._signals = signals
        if signals is not None:
            signals.shared = True

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        """This worker's next batch, or a ``Whole`` one of all.

        Raises:
            StopIteration: on all workers, when none has a batch left, or one has stopped.
        """
        if self._ended:
            raise StopIteration
        batch = self._draw()
        leaves = jax.tree.leaves(batch)
        rows = next((len(leaf) for leaf in leaves if np.ndim(leaf)), 0)
        signals = self._signals
        told = self._link.tell_all([rows, signals.received if signals is not None else None])
        numbers = [number for _, number in told if number is not None]
        if signals is not None and numbers:
            self._ended = self.interrupted = True
            signals.received = signals.received or numbers[0]
            signals.raise_received()
        counts = [count for count, _ in told]
        if not any(counts) or min(counts) < 0:
            self._ended = True
            raise StopIteration
        if all(count == rows for count in counts) and rows % self._replicas == 0:
            return batch
        return Whole(self._gather(leaves))

    def _draw(self) -> Any:
        """This worker's next batch; None where there is none, or where it was interrupted."""
        signals = self._signals
        if signals is None:
            return next(self._batches, None)
        if signals.received is not None:
            return None
        signals.waiting = True
        try:
            return next(self._batches, None)
        except (KeyboardInterrupt, SystemExit):
            if signals.received is None or signals.aborted:
                raise
            return None  # the others are to hear of it first
        finally:
            signals.waiting = False

    def stop(self) -> None:
        """Tell the others that this worker takes no further step, unless all have ended."""
        if not self._ended:
            self._ended = True
            self._link.tell_all([-1, None])

    def _gather(self, leaves: list[Array]) -> Any:
        """The rows of all workers, one worker's after the other's, on each of them."""
        own = leaves or [
            np.empty((0, *like.shape[1:]), like.dtype) if like.ndim else like for like in self._like
        ]
        gathered = [
            np.concatenate(self._link.gather(np.asarray(leaf))) if like.ndim else leaf
            for leaf, like in zip(own, self._like, strict=True)
        ]
        return jax.tree.unflatten(self._structure, gathered)


def _rows_of(batch: Any) -> list[str]:
    """The structure of a batch without its number of rows."""
    return [
        f"{jax.tree_util.keystr(path).removeprefix('.')}: {np.asarray(leaf).dtype}{list(np.shape(leaf)[1:])}"
        for path, leaf in jax.tree_util.tree_leaves_with_path(batch)
    ]
