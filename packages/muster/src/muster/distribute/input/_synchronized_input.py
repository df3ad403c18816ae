"""Input of workers in step: all take the same number of steps, and no example is lost."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

from muster.distribute.engine._join import common_sizes, filled_up, row_sizes
from muster.distribute.engine._split import Split
from muster.distribute.input._step_input import Position, StepInput
from muster.distribute.workers._workers import Workers
from muster.lifecycle import SignalWatch


@contextlib.contextmanager
def synchronized(
    workers: Workers, local_replicas: int, source: StepInput, signals: SignalWatch | None = None
) -> Iterator[StepInput]:
    """Let workers take steps together until all of them have run out of batches.

    Args:
        workers: The processes; each reads other batches.
        local_replicas: The number of replicas of each.
        source: The input of this worker: rows for its replicas.
        signals: The interrupts of this worker, to end all workers after the same step; None to leave them.

    Yields:
        The input of worker batches: the source itself for one replica. If a worker leaves the block without
        an error, they end on all workers.
    """
    if workers.size * local_replicas == 1:
        yield source
        return
    steps = SynchronizedInput(source, workers, signals, local_replicas)
    try:
        yield steps
    except BaseException:
        if steps.interrupted is not None:
            workers.end_early(*steps.interrupted)
        raise
    if workers.size > 1:
        steps.stop()


class SynchronizedInput(StepInput):
    """Divides the rows that workers read in each step among their replicas.

    Before each step the workers gather their numbers of rows. If these are equal, and divisible by
    ``local_replicas``, each worker takes its batch. Otherwise, as at the end of the data, or if workers read
    different numbers of pipelines, they gather the rows of all, and divide them anew. If one was
    interrupted, all end after the same step.

    Args:
        source: The input of this worker: nested structures of arrays with the same first axis.
        workers: The processes; each reads other batches.
        signals: The interrupts of this worker; None leaves them to others.
        local_replicas: The number of replicas that share the batch of a worker.

    Attributes:
        interrupted: The rank of the worker that got a signal, and the signal, if the workers have agreed to
            end for that; else None.

    Raises:
        MismatchError: The batches of workers differ in structure, dtype or number of axes. All workers raise.
    """

    def __init__(
        self, source: StepInput, workers: Workers, signals: SignalWatch | None, local_replicas: int = 1
    ) -> None:
        self._source, self.example = source, source.example
        self._split = Split(workers.rank, workers.size, local_replicas)
        self._workers = workers
        self._ended = False
        self.interrupted: tuple[int, int] | None = None
        self._signals = signals if workers.size > 1 else None
        self._taken = 0
        # All take equally many steps, so that later places of others are known without asking them.
        starts = workers.all_gather_object(source.position(0).to_json())
        self._starts = [Position.of_json(each) for each in starts]
        if workers.size == 1:
            return
        workers.require_equal("batches", _kinds_of_rows(source.example))
        self._empty = jax.tree.map(
            lambda leaf: np.asarray(leaf)[:0] if np.ndim(leaf) else leaf, source.example
        )
        if signals is not None:
            signals.shared = True

    @property
    def share(self) -> str:
        return self._source.share

    def position(self, steps: int | None = None) -> Position:
        """Return where it goes on; that of another worker may lie beyond the end of its data."""
        own = self._source.position(steps)
        taken = self._taken if steps is None else steps
        places = [start.moved_by_steps(taken) for start in self._starts]
        places[self._workers.rank] = own
        return dataclasses.replace(own, pipelines=[each for place in places for each in place.pipelines])

    def __next__(self) -> Any:
        """Return the next worker batch.

        Raises:
            StopIteration: No worker has a batch left, or one has stopped. All workers raise.
        """
        self._taken += 1
        if self._workers.size == 1:
            return self._split.worker_batch(next(self._source))
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
            return next(self._source, None)
        if signals.received is not None:
            return None
        signals.waiting = True
        try:
            return next(self._source, None)
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
