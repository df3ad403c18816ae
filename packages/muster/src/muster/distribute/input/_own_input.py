"""Input that a worker reads by itself: one pipeline or several, a batch of each for every replica."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from muster._errors import PositionError
from muster.data import Dataset, moved_position
from muster.data.sharding import describe_share
from muster.distribute.engine._join import joined
from muster.distribute.input._step_input import Convert, Position, StepInput


class Pipeline:
    """One of a job's input pipelines, from a position on.

    Args:
        dataset: Its elements are batches.
        position: Where it goes on, as `DatasetIterator.position`; None begins it.
        seed: Seeds shuffles that have no seed of their own; None leaves them random.
        convert: As for `Dataset.iterator`.
        past_end: Whether the position may lie beyond the end: others may have had more batches.

    Attributes:
        dataset: As given.
        start: The position of its first batch.
        first: That batch; None if there is none.
        batches: That batch, and those after it, which are left to take.
        taken: The number of batches that were taken.

    Raises:
        PositionError: The position belongs to another pipeline.
    """

    def __init__(
        self,
        dataset: Dataset,
        position: Mapping[str, Any] | None = None,
        *,
        seed: int | None = None,
        convert: Convert | None = None,
        past_end: bool = False,
    ) -> None:
        self.dataset = dataset
        self._position, self._seed, self._convert = position, seed, convert
        self._past_end = past_end
        self.open()

    def open(self) -> None:
        """Begin at the first batch, again if it was open."""
        self.taken = 0
        self.first: Any = None
        self._last: list[Any] = []
        self._iterator = self.dataset.iterator(self._position, seed=self._seed, convert=self._convert)
        with ExitStack() as undo:
            undo.callback(self.close)
            self.start = self._iterator.position
            try:
                self.first = next(self._iterator, None)
            except PositionError:
                if not self._past_end:
                    raise
            undo.pop_all()
        # Without the first one, what comes is the end, or was not read.
        self.batches: Iterator[Any] = iter(())
        if self.first is not None:
            self.batches = itertools.chain([self.first], self._iterator)

    def example(self) -> Any:
        """Return the first batch, or the very first of the dataset if none is left; None if there is none."""
        if self.first is not None or self._position is None:
            return self.first
        with self.dataset.iterator(seed=self._seed, convert=self._convert) as again:
            return next(again, None)

    def take(self, count: int) -> list[Any]:
        """Return the next batches: fewer at the end."""
        batches = self._last = list(itertools.islice(self.batches, count))
        self.taken += len(batches)
        return batches

    def go_back(self, position: Mapping[str, Any]) -> bool:
        """Go back to a position before the last batches that were taken; return whether it is there then."""
        taken = int(position["elements"]) - int(self.start["elements"])
        if taken == self.taken - len(self._last):
            self.batches = itertools.chain(self._last, self.batches)
            self.taken, self._last = taken, []
        return taken == self.taken

    def close(self) -> None:
        """End its thread."""
        self._iterator.close()


class OwnInput(StepInput):
    """Reads pipelines of which no other worker reads any.

    Args:
        pipelines: What this worker reads, in the order of the pipelines' numbers.
        per_step: The number of batches that a step takes of each: one for each of its replicas.
        check: Called with the example; may raise.
        open_pipeline: Opens another of the job's pipelines, by its number, at a position; None if this worker
            reads the same ones for good.
        first_number: The number of the first of the pipelines.

    Attributes:
        first: The first batch; None if no pipeline has one left.
        example: That batch, or the very first of the data if none is left.
    """

    def __init__(
        self,
        pipelines: Sequence[Pipeline],
        per_step: int = 1,
        check: Callable[[Any], None] = lambda example: None,
        open_pipeline: Callable[[int, Mapping[str, Any]], Pipeline] | None = None,
        first_number: int = 0,
    ) -> None:
        self._pipelines, self._per_step, self._check = pipelines, per_step, check
        self._open_pipeline, self._first_number = open_pipeline, first_number
        self._only = pipelines[0] if len(pipelines) * per_step == 1 else None
        with ExitStack() as undo:
            undo.callback(self.close)
            self._look()
            undo.pop_all()

    def reopen(self) -> None:
        """Begin again at the first batch, which is prepared otherwise by now."""
        for each in self._pipelines:
            each.close()
            each.open()
        self._look()

    def _look(self) -> None:
        self.first = _some(each.first for each in self._pipelines)
        self.example = self.first
        if self.example is None:
            self.example = _some(each.example() for each in self._pipelines)
        if self.example is not None:
            self._check(self.example)

    def read(self, first: int, starts: Sequence[Mapping[str, Any]], steps: int) -> None:
        """Read pipelines of the job from here on, as others come and go: those that it reads already go on.

        Args:
            first: The number of the first one.
            starts: Where each of them began.
            steps: How many steps have been taken since.
        """
        if self._open_pipeline is None:
            raise ValueError("This input cannot read other pipelines than those that it has opened.")
        known = {self._first_number + place: each for place, each in enumerate(self._pipelines)}
        pipelines = []
        for number, start in enumerate(starts, first):
            place = moved_position(start, steps * self._per_step)
            pipeline = known.pop(number, None)
            if pipeline is not None and not pipeline.go_back(place):
                pipeline.close()
                pipeline = None
            pipelines.append(self._open_pipeline(number, place) if pipeline is None else pipeline)
        for pipeline in known.values():
            pipeline.close()
        self._pipelines, self._first_number = pipelines, first
        self._only = pipelines[0] if len(pipelines) * self._per_step == 1 else None

    @property
    def share(self) -> str:
        return " and ".join(dict.fromkeys(describe_share(each.dataset) for each in self._pipelines))

    def __next__(self) -> Any:
        """Return the rows of the next step, joined.

        Raises:
            StopIteration: All pipelines have ended.
        """
        if self._only is None or self._open_pipeline is not None:
            return joined(self.next_batches())
        batch = next(self._only.batches)
        self._only.taken += 1
        return batch

    def next_batches(self) -> list[Any]:
        """Return the batches of the next step: fewer where pipelines end.

        Raises:
            StopIteration: All pipelines have ended.
        """
        batches = [batch for each in self._pipelines for batch in each.take(self._per_step)]
        if not batches:
            raise StopIteration
        return batches

    def position(self, steps: int | None = None) -> Position:
        """Return where it goes on; ``pipelines`` are those that this worker reads."""
        taken = [
            each.taken if steps is None else min(steps * self._per_step, each.taken)
            for each in self._pipelines
        ]
        starts = (each.start for each in self._pipelines)
        return Position(pipelines=[*map(moved_position, starts, taken)], per_step=self._per_step)

    def close(self) -> None:
        for each in self._pipelines:
            each.close()


def _some(batches: Iterator[Any]) -> Any:
    """Return the first batch that is there, or None."""
    return next((batch for batch in batches if batch is not None), None)
