"""Input that is handed out to workers: each batch of a pass by its number, to one of them."""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from muster._errors import PositionError
from muster.data import Dataset, NoElementError, NumberedReader
from muster.distribute.input._step_input import Convert, Position, StepInput
from muster.distribute.input._step_source import BatchNumbers

_log = logging.getLogger(__name__)

# How long to wait for the batch that is being made when steps end, in seconds.
_JOIN_SECS = 2.0


class DispatchedInput(StepInput):
    """Reads the batches whose numbers this worker gets.

    The chief says which pass over the data it is, and the others hear of it. At the end of the data no step
    is left for any worker, once those are made that others have begun.

    Args:
        dataset: The dataset, the same in all workers.
        numbers: Give the numbers of this worker's batches.
        place: Where to begin: the numbers, and the pass if it is not a new one.
        seed: Seeds shuffles that have no seed of their own; None leaves them random.
        convert: As for `Dataset.numbered`.
        check: Called with the first batch of the pass; may raise.

    Attributes:
        meet: Called before the first batch: this worker has its first number then.
        first: The very first batch; None if there is none.

    Raises:
        ValueError: Several workers make each step together, so that they have the same numbers.
    """

    share = "what it gets tickets for"

    def __init__(
        self,
        dataset: Dataset,
        numbers: BatchNumbers,
        place: Position,
        *,
        seed: int | None,
        convert: Convert,
        check: Callable[[Any], None],
    ) -> None:
        self.meet: Callable[[], None] = lambda: None
        self._numbers = numbers
        self._numbered = partial(dataset.numbered, seed=seed, convert=convert)
        self._reader: NumberedReader | None = None
        self._begin = 0
        try:
            elements = self._numbered(*place.pipelines)
        except PositionError as exc:
            _log.warning("The input starts again at its first example: %s", exc)
            place = Position(begin=place.drawn, drawn=place.drawn)
            elements = self._numbered()
        self.first: Any = None
        with elements, suppress(NoElementError):
            numbers.share(Position(pipelines=[elements.position], begin=place.begin, open=place.open))
            self.first = elements.read(0)
        self.example = self.first
        if self.first is not None:
            check(self.first)

    def __next__(self) -> Any:
        """Return the batch of this worker's next number.

        Raises:
            NoMoreSteps: All are computed; it is a StopIteration.
            ValueError: The chief's input is not shared.
            PositionError: It is another one.
        """
        if self._reader is None:
            self.meet()
            place = self._numbers.position
            self._begin = place.begin or 0
            self._reader = NumberedReader(partial(self._numbered, *place.pipelines))
        while True:
            number = self._numbers.take()
            try:
                self._reader.ask([number - self._begin])
                return self._reader.take(number - self._begin)
            except NoElementError:
                self._numbers.end_at(number)

    def position(self, steps: int | None = None) -> Position:
        """Return the start of the pass: the global step tells the place in it, and servers know the rest."""
        return self._numbers.position

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader.join(_JOIN_SECS)
