"""Batches of several workers: all take the same number of steps, and no example is lost."""

import contextlib
from collections.abc import Iterator
from typing import Any, Protocol

import jax
import numpy as np

from muster.distribute.engine._split import ReplicatedBatch, Split, concatenated
from muster.distribute.workers._workers import Workers


class Signals(Protocol):
    """Ctrl-C and SIGTERM, noted until the workers have agreed on them.

    Attributes:
        received: The number of the signal that was noted, or None.
        waiting: Whether one is raised as soon as it comes.
        shared: Whether several workers have to agree on it before it is raised.
        aborted: Whether a second one was raised.
    """

    received: int | None
    waiting: bool
    shared: bool
    aborted: bool

    def raise_received(self) -> None:
        """Raise the signal that was noted, if any."""


@contextlib.contextmanager
def synchronized(
    workers: Workers,
    local_replicas: int,
    batches: Iterator[Any],
    example: Any,
    signals: Signals | None = None,
) -> Iterator[Iterator[Any]]:
    """Turn the batches of each replica into those of steps, of which all workers take as many.

    Args:
        workers: The processes; each iterates over batches that it alone has.
        local_replicas: The number of replicas of each.
        batches: Batches of this worker, each for one replica.
        example: One of them, for its structure.
        signals: The interrupts of this worker; then workers that are interrupted end after the same step.

    Yields:
        Worker batches. If a worker leaves the block without an error, all of them run out.
    """
    if local_replicas > 1:
        batches = concatenated(batches, local_replicas)
    if workers.size == 1:
        split = Split(local_replicas=local_replicas)
        yield map(split.local_batch, batches) if local_replicas > 1 else batches
        return
    steps = SynchronizedBatches(batches, example, workers, signals, local_replicas)
    try:
        yield steps
    except BaseException:
        if steps.interrupted:
            workers.end_early()
        raise
    steps.stop()


class SynchronizedBatches:
    """Lets workers take their steps together until all of them have run out of batches.

    Before each step they gather how many rows each has, and whether it goes on. Where all have as many, which
    their replicas can share, each takes its batch. Else, as at the end of the data, all of them take the rows
    of all. Where one was interrupted, all of them are, after the same step.

    Args:
        batches: Batches of this worker: nested structures of arrays with the same first axis.
        example: One of them, for its structure.
        workers: The processes; each iterates over batches that it alone has.
        signals: The interrupts of this worker; None leaves them to others.
        local_replicas: How many replicas share the batch of a worker.

    Attributes:
        interrupted: Whether the workers have agreed to end early.

    Raises:
        MismatchError: On every worker, if their batches differ in structure, type or shape of a row.
    """

    def __init__(
        self,
        batches: Iterator[Any],
        example: Any,
        workers: Workers,
        signals: Signals | None,
        local_replicas: int = 1,
    ) -> None:
        self._batches = batches
        self._local_replicas = local_replicas
        self._workers = workers
        workers.require_equal("batches", _kinds_of_rows(example))
        leaves, self._structure = jax.tree.flatten(example)
        self._like = [np.asarray(leaf)[:1] if np.ndim(leaf) else np.asarray(leaf) for leaf in leaves]
        self._ended = False
        self.interrupted = False
        self._signals = signals
        if signals is not None:
            signals.shared = True

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        """Return this worker's next batch, or a ``ReplicatedBatch`` of the rows of all.

        Raises:
            StopIteration: On all workers, when none has a batch left, or one has stopped.
        """
        if self._ended:
            raise StopIteration
        batch = self._draw()
        leaves = jax.tree.leaves(batch)
        rows = next((len(leaf) for leaf in leaves if np.ndim(leaf)), 0)
        signals = self._signals
        gathered = self._workers.all_gather_object([rows, None if signals is None else signals.received])
        numbers = [number for _, number in gathered if number is not None]
        if signals is not None and numbers:
            self._ended = self.interrupted = True
            signals.received = signals.received or numbers[0]
            signals.raise_received()
        counts = [count for count, _ in gathered]
        if not any(counts) or min(counts) < 0:
            self._ended = True
            raise StopIteration
        if all(count == rows for count in counts) and rows % self._local_replicas == 0:
            return batch
        return ReplicatedBatch(self._gather(leaves))

    def _draw(self) -> Any:
        """Return this worker's next batch; None where there is none, or where it was interrupted."""
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
            self._workers.all_gather_object([-1, None])

    def _gather(self, leaves: list[Any]) -> Any:
        """Concatenate the rows of all workers, by rank, on each of them."""
        local = leaves or [
            np.empty((0, *like.shape[1:]), like.dtype) if like.ndim else like for like in self._like
        ]
        gathered = [
            np.concatenate(self._workers.all_gather(np.asarray(leaf))) if like.ndim else leaf
            for leaf, like in zip(local, self._like, strict=True)
        ]
        return jax.tree.unflatten(self._structure, gathered)


def _kinds_of_rows(batch: Any) -> list[str]:
    """Describe the structure of a batch without its number of rows."""
    return [
        f"{jax.tree_util.keystr(path).removeprefix('.')}: {np.asarray(leaf).dtype}{list(np.shape(leaf)[1:])}"
        for path, leaf in jax.tree_util.tree_leaves_with_path(batch)
    ]
