"""Synchronizes the batches of workers: all take the same number of steps, and no example is lost."""

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from muster.distribute.engine._join import common_sizes, filled_up, row_sizes
from muster.distribute.engine._split import Split, concatenated
from muster.distribute.workers._workers import Workers
from muster.lifecycle import SignalWatch


@contextlib.contextmanager
def synchronized(
    workers: Workers,
    local_replicas: int,
    batches: Iterator[Any],
    example: Any,
    signals: SignalWatch | None = None,
) -> Iterator[Iterator[Any]]:
    """Combine batches of replicas into worker batches, equally many on all workers.

    Args:
        workers: The processes; each iterates over different batches.
        local_replicas: The number of replicas of each.
        batches: Batches of this worker, each for one replica.
        example: One of them, for its structure.
        signals: The interrupts of this worker, to end all workers after the same step; None to leave them.

    Yields:
        Worker batches. If a worker leaves the block without an error, they end on all workers.
    """
    if local_replicas > 1:
        batches = concatenated(batches, local_replicas)
    if workers.size == 1:
        split = Split(local_replicas=local_replicas)
        yield map(split.worker_batch, batches) if local_replicas > 1 else batches
        return
    steps = SynchronizedBatches(batches, example, workers, signals, local_replicas)
    try:
        yield steps
    except BaseException:
        if steps.interrupted is not None:
            workers.end_early(*steps.interrupted)
        raise
    steps.stop()


class SynchronizedBatches:
    """Lets workers take steps together until all of them have run out of batches.

    Before each step the workers gather their numbers of rows. If these are equal, and divisible by
    ``local_replicas``, each worker takes its batch. Otherwise, as at the end of the data, the workers gather
    the rows of all, and divide them anew. If one was interrupted, all end after the same step.

    Args:
        batches: Batches of this worker: nested structures of arrays with the same first axis.
        example: One of them, for its structure.
        workers: The processes; each iterates over different batches.
        signals: The interrupts of this worker; None leaves them to others.
        local_replicas: The number of replicas that share the batch of a worker.

    Attributes:
        interrupted: The rank of the worker that got a signal, and the signal, if the workers have agreed to
            end for that; else None.

    Raises:
        MismatchError: The batches of workers differ in structure, dtype or number of axes. All workers raise.
    """

    def __init__(
        self,
        batches: Iterator[Any],
        example: Any,
        workers: Workers,
        signals: SignalWatch | None,
        local_replicas: int = 1,
    ) -> None:
        self._batches = batches
        self._split = Split(workers.rank, workers.size, local_replicas)
        self._workers = workers
        workers.require_equal("batches", _kinds_of_rows(example))
        self._empty = jax.tree.map(lambda leaf: np.asarray(leaf)[:0] if np.ndim(leaf) else leaf, example)
        self._ended = False
        self.interrupted: tuple[int, int] | None = None
        self._signals = signals
        if signals is not None:
            signals.shared = True

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        """Return the next worker batch.

        Raises:
            StopIteration: No worker has a batch left, or one has stopped. All workers raise.
        """
        if self._ended:
            raise StopIteration
        batch = self._draw()
        rows = next((len(leaf) for leaf in jax.tree.leaves(batch) if np.ndim(leaf)), 0)
        signals = self._signals
        gathered = self._workers.all_gather_object([rows, None if signals is None else signals.received])
        received = [(rank, number) for rank, (_, number) in enumerate(gathered) if number is not None]
        if signals is not None and received:
            self._ended, self.interrupted = True, received[0]
            signals.note_others(received[0][1])
            signals.raise_received()
        counts = [count for count, _ in gathered]
        if not any(counts) or min(counts) < 0:
            self._ended = True
            raise StopIteration
        if all(count == rows for count in counts) and rows % self._split.local_replicas == 0:
            return batch
        return self._split.worker_batch(self._gather(self._empty if batch is None else batch))

    def _draw(self) -> Any:
        """Return this worker's next batch; None if there is none, or if it was interrupted."""
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
            return None  # the workers have to agree first
        finally:
            signals.waiting = False

    def stop(self) -> None:
        """End the steps on all workers, unless they have ended."""
        if not self._ended:
            self._ended = True
            self._workers.all_gather_object([-1, None])

    def _gather(self, batch: Any) -> Any:
        """Concatenate the rows of all workers, by rank, on every worker."""
        sizes = common_sizes(self._workers.all_gather_object(row_sizes(batch)))
        return jax.tree.map(
            lambda leaf: (
                np.concatenate(self._workers.all_gather(np.asarray(leaf))) if np.ndim(leaf) else leaf
            ),
            filled_up(batch, sizes),
        )


def _kinds_of_rows(batch: Any) -> list[str]:
    """Describe the structure of a batch without its sizes: rows may differ in length, too."""
    return [
        f"{jax.tree_util.keystr(path).removeprefix('.')}: {np.asarray(leaf).dtype} of {np.ndim(leaf)} axes"
        for path, leaf in jax.tree_util.tree_leaves_with_path(batch)
    ]
