"""The batches of a shared input: a step's ticket is the number of its batch."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self

from muster._errors import PositionError
from muster.checkpoint import Checkpoint
from muster.data import Dataset, NumberedReader
from muster.distribute.input import BatchNumbers
from muster.estimator._estimator_spec import ModeKeys
from muster.estimator.loop._batch import Batch
from muster.estimator.loop._batches import Prepare, WideIntegers, batches_of, check_batch
from muster.estimator.loop._tracing import GLOBAL_STEP

_log = logging.getLogger(__name__)

# How long to wait for the batch that is being made when training ends, in seconds.
_JOIN_SECS = 2.0


def is_shared(returned: Any) -> bool:
    """Return whether what an input_fn returned is a dataset whose batches are to be handed out."""
    return isinstance(returned, Dataset) and returned.options().experimental_distribute.dispatch is not None


class PassPosition(NamedTuple):
    """The step at which training begins, and the pass over the data.

    Attributes:
        step: The global step.
        begin: The ticket of the first batch.
        open: Tickets below the global step, as it were, whose batches are to be computed yet.
        position: Where the pass begins; None for another one.
    """

    step: int
    begin: int
    open: Sequence[int] = ()
    position: Mapping[str, Any] | None = None


def place_of(
    checkpoint: Checkpoint | None, position: Mapping[str, Any] | None, numbers: BatchNumbers
) -> PassPosition:
    """Return where training goes on after a checkpoint.

    Args:
        checkpoint: The checkpoint; None for none.
        position: What it says about the input; None if another pass is to begin.
        numbers: Tell which batches it lacks.
    """
    step = 0 if checkpoint is None else checkpoint.step
    if checkpoint is None or position is None or "begin" not in position:
        return PassPosition(step, step)
    # The values on servers may have been further than the step that the checkpoint is named after.
    further = int(checkpoint.variables.get(GLOBAL_STEP, step)) - step
    left_open = [number - further for number in numbers.left_open(checkpoint.variables)]
    return PassPosition(step, int(position["begin"]) - further, left_open, position)


class SharedBatches:
    """Iterates over the batches of those steps for which this worker gets tickets.

    The chief says which pass over the data it is; the others hear of it from the first server. At the end of
    the data no step is left for any worker, once those are made that others have begun.

    Args:
        dataset: The dataset of ``(features, labels)`` or of features, the same in all workers.
        numbers: Give the numbers of this worker's batches.
        place: Where to begin.
        seed: Seeds shuffles that have no seed of their own; None leaves them random.
        prepare: As of ``Batches``.

    Attributes:
        meet: Called before the first batch: this worker has its first ticket then.
        first: The very first batch; None if there is none.
        example: The same.
        taken: How many batches the iteration has yielded.
        share: A description of what this worker reads.

    Raises:
        DatasetError: A step cannot compute with the first batch.
        ValueError: Workers train in rounds, in which several have the same ticket.
    """

    share = "what it gets tickets for"

    def __init__(
        self,
        dataset: Dataset,
        numbers: BatchNumbers,
        place: PassPosition,
        *,
        seed: int | None,
        prepare: Prepare | None,
    ) -> None:
        self.meet: Callable[[], None] = lambda: None
        self._numbers = numbers
        self._numbered = partial(
            dataset.numbered,
            seed=seed,
            convert=partial(batches_of, mode=ModeKeys.TRAIN, prepare=prepare, host=None, wide=WideIntegers()),
        )
        self._reader: NumberedReader | None = None
        self.taken = 0
        try:
            elements = self._numbered(place.position)
        except PositionError as exc:
            _log.warning("The input starts again at its first example: %s", exc)
            place = PassPosition(place.step, place.step)
            elements = self._numbered(None)
        self.example: Batch | None = None
        with elements, suppress(IndexError):
            numbers.share(elements.position, place.begin, place.open)
            self.example = elements.read(0)
        if self.example is not None:
            check_batch(self.example)
        self.first = self.example

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader.join(_JOIN_SECS)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        """Return the batch of this worker's ticket.

        Raises:
            NoMoreSteps: All are computed; it is a StopIteration.
            ValueError: The chief's input is not shared.
            PositionError: It is another one.
        """
        if self._reader is None:
            self.meet()
            self._reader = NumberedReader(partial(self._numbered, self.position))
        begin = self.position["begin"]
        while True:
            number = self._numbers.take()
            try:
                self._reader.ask([number - begin])
                batch: Batch = self._reader.take(number - begin)
            except IndexError:
                self._numbers.end_at(number)
                continue
            self.taken += 1
            return batch

    @property
    def position(self) -> Mapping[str, Any]:
        """The start of the pass, as JSON; the global step gives the position in it."""
        return self._numbers.position
