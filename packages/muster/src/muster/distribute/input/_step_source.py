"""Step sources: say which steps a worker may make, on which batches, and up to where."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from muster.distribute.input._step_input import Position


class BatchNumbers(ABC):
    """Hands out the batches of one pass over the data to workers, by number: each to one of them."""

    @abstractmethod
    def share(self, position: Position) -> None:
        """Say which pass over the data it is, before the first step. The chief's word counts.

        Args:
            position: The start of the pass, the number of its first batch, and the numbers that are open: of
                earlier batches that are to be computed yet.

        Raises:
            ValueError: Several workers make each step together, so that there is no batch for each.
        """

    @abstractmethod
    def share_nothing(self) -> None:
        """Say that each worker reads batches of its own."""

    @property
    @abstractmethod
    def position(self) -> Position:
        """The start of the pass, and the number of its first batch; of no pipeline if nothing is shared."""

    @abstractmethod
    def take(self) -> int:
        """Wait for the number of this worker's next batch, and return it; again, until a step was made on it.

        Raises:
            NoMoreSteps: All steps are made; it is a StopIteration.
            ValueError: The chief's input is not shared.
        """

    @abstractmethod
    def end_at(self, number: int) -> None:
        """Say that no batch has this number: it, and all after it, go back."""

    @abstractmethod
    def left_open(self, variables: Mapping[str, Any]) -> list[int]:
        """Return the numbers, below its global step, of batches that a checkpoint lacks.

        Args:
            variables: What the checkpoint holds, by path.
        """


class StepSource:
    """Lets a worker make a step on each of its batches; a strategy may have one that asks others.

    Attributes:
        shared: Whether other workers make steps of the same training, each on its own, so that the global
            step advances by more than this worker's.
        global_step: The number of steps that all workers have made, as far as it is known here; unused where
            nobody else makes any.
        max_staleness: How many steps this worker may be ahead of the slowest other one; None for any number,
            0 where all make each step together.
        numbers: Hands out batches by number; None where no batches are handed out.
    """

    shared: bool = False
    global_step: int = 0
    max_staleness: int | None = 0
    numbers: BatchNumbers | None = None

    def begin(self, last_step: int | None) -> None:
        """Begin a training, also after another one of this strategy.

        Args:
            last_step: The global step at which no worker makes another one; None for no end.
        """

    def permitted(self, batches: Iterator[Any], at_end: Callable[[], None]) -> Iterator[Any]:
        """Yield batches while this worker may make a step on each.

        Args:
            batches: Those of this worker.
            at_end: Called when there are no more steps, unless the job has ended before.
        """
        return batches

    def look_up(self) -> int | None:
        """Ask for the global step that all workers have come to; None once the job has ended."""
        return self.global_step
