"""Input of workers in step: all take the same number of steps, and no example is lost."""

import contextlib
import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from muster._errors import MismatchError
from muster.data import moved_position
from muster.distribute.engine._join import common_sizes, filled_up, row_sizes
from muster.distribute.engine._split import Split
from muster.distribute.input._own_input import OwnInput
from muster.distribute.input._step_input import Position, StepInput
from muster.distribute.workers._workers import Workers
from muster.lifecycle import SignalWatch

# How long a worker that comes and goes trains on after a signal, to see whether all others get it, too.
_ALONE_SECS = 1.0


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
    if workers.share_of(local_replicas).total == 1:
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

    Before each step the workers gather their numbers of rows. If these are as many for each replica, each
    worker takes its batch. Otherwise, as at the end of the data, or if workers read different numbers of
    pipelines for as many replicas, they gather the rows of all, and divide them anew. If one was interrupted,
    all end after the same step. Of workers that come and go, it leaves the others alone, unless all were.

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
        self._split = Split(workers.share_of(local_replicas))
        self._workers = workers
        self._ended = False
        self.interrupted: tuple[int, int] | None = None
        self._comes_and_goes = workers.comes_and_goes
        self._signals = signals if workers.size > 1 or self._comes_and_goes else None
        self._told_at: float | None = None  # when this worker got a signal, and others have not
        self._taken = 0
        # All take equally many steps, so that later places of others are known without asking them.
        gathered = workers.all_gather_object(source.position(0).to_json())
        starts = [Position.of_json(each) for each in gathered]
        self._starts: list[Mapping[str, Any]] = [each for start in starts for each in start.pipelines]
        self._first = sum(len(start.pipelines) for start in starts[: workers.rank])
        self._count = self._split.local_replicas
        if workers.size == 1 and not self._comes_and_goes:
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
        taken = (self._taken if steps is None else steps) * own.per_step
        places: list[Mapping[str, Any]] = [moved_position(start, taken) for start in self._starts]
        places[self._first : self._first + len(own.pipelines)] = own.pipelines
        return dataclasses.replace(own, pipelines=places)

    def take_over(self, steps: int, starts: Sequence[Mapping[str, Any]] | None = None) -> None:
        """Read the pipelines of the virtual replicas that this worker has now.

        Args:
            steps: How many steps have been taken.
            starts: Where each of the job's pipelines began; None if this worker knows it.
        """
        if starts is not None:
            self._starts = list(starts)
        share = self._split.share
        self._first, self._count, self._taken = share.first, share.count, steps
        self._told_at = None
        if isinstance(self._source, OwnInput):
            self._source.read(share.first, self._starts[share.first : share.first + share.count], steps)

    @property
    def starts(self) -> Sequence[Mapping[str, Any]]:
        """The start of each of the job's pipelines."""
        return self._starts

    def __next__(self) -> Any:
        """Return the next worker batch.

        Raises:
            StopIteration: No worker has a batch left, or one has stopped. All workers raise.
        """
        self._taken += 1
        if self._workers.size == 1 and not self._comes_and_goes:
            return self._split.worker_batch(next(self._source))
        if self._ended:
            raise StopIteration
        batch = self._draw()
        rows = next((len(leaf) for leaf in jax.tree.leaves(batch) if np.ndim(leaf)), 0)
        signals = self._signals
        own = None if signals is None else signals.received
        gathered = self._workers.all_gather_object([rows, own, self._count, self._first])
        received = [(rank, number) for rank, (_, number, *_) in enumerate(gathered) if number is not None]
        if signals is not None and received and self._ends(len(received), len(gathered), own):
            rank = self._workers.rank if self._comes_and_goes else received[0][0]
            self._ended, self.interrupted = True, (rank, received[0][1])
            signals.note_others(received[0][1])
            signals.raise_received()
        counts = [count for count, *_ in gathered]
        if not any(counts) or min(counts) < 0:
            self._ended = True
            raise StopIteration
        if self._comes_and_goes:
            self._require_each_once([(first, count) for _, _, count, first in gathered])
        total, replicas = sum(counts), self._split.replicas
        even = total // replicas
        if total % replicas == 0 and all(count == even * here for count, _, here, _ in gathered):
            return batch
        return self._split.worker_batch(self._gather(self._empty if batch is None else batch))

    def _require_each_once(self, held: list[tuple[int, int]]) -> None:
        """Check that the workers read each pipeline of the job once.

        Raises:
            MismatchError: They do not, by a mistake of muster: examples would be lost or counted twice.
        """
        numbers = [number for first, count in held for number in range(first, first + count)]
        if numbers != [*range(self._split.replicas)]:
            raise MismatchError(
                f"The workers read the input pipelines {numbers}, and the job has {self._split.replicas}: "
                "this is an error in muster. Start the job again; it goes on from its last checkpoint."
            )

    def _ends(self, received: int, workers: int, own: int | None) -> bool:
        """Return whether to end for a signal: all do, or of workers that come and go the one that got it."""
        if not self._comes_and_goes or received == workers:
            return True
        if own is None:
            return False
        now = time.monotonic()
        self._told_at = self._told_at or now
        return now - self._told_at >= _ALONE_SECS

    def _draw(self) -> Any:
        """Return this worker's next batch; None if there is none, or if it was interrupted."""
        signals = self._signals
        if signals is None:
            return next(self._source, None)
        if signals.received is not None and not self._comes_and_goes:
            return None
        signals.waiting = True
        try:
            return next(self._source, None)
        except (KeyboardInterrupt, SystemExit):
            if signals.received is None or signals.aborted or self._comes_and_goes:
                raise
            return None  # the workers have to agree first
        finally:
            signals.waiting = False

    def stop(self) -> None:
        """End the steps on all workers, unless they have ended."""
        if not self._ended:
            self._ended = True
            self._workers.all_gather_object([-1, None, 0, 0])

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
