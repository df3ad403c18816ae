"""The input of steps: a batch for each, and the position at which it goes on after an interruption."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeAlias

from muster._errors import PositionError

Convert: TypeAlias = Callable[[list[Any]], Iterable[Any]]
"""Takes elements that are read together, and returns a batch of each: see `Dataset.iterator`."""

Orders: TypeAlias = list[list[list[int]]]
"""By which datasets are shuffled: the seed and count of each shuffle, for each dataset of a worker."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Position:
    """Saves where the input of a job continues.

    Attributes:
        pipelines: Of each input pipeline of the job, by its number: the next batch, as
            `DatasetIterator.position` has it. Of a pass whose batches are handed out: where that begins.
        per_step: The number of batches that a step takes from each pipeline.
        begin: The number of the first batch of a pass whose batches are handed out; None for others.
        drawn: The number of the next batch: of a pass from its start, how many were drawn.
        open: Numbers below that are to be handed out again.
        random: The process-wide random state at the start of the pass, by which `fit` shuffles it.
        orders: The seeds and counts by which datasets are shuffled in the pass; None if that is all in
            ``random`` and ``pipelines``.
    """

    pipelines: Sequence[Mapping[str, Any]] = ()
    per_step: int = 1
    begin: int | None = None
    drawn: int = 0
    open: Sequence[int] = ()
    random: Sequence[Any] = ()
    orders: Orders | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it for JSON, without what is as in every new position."""
        fields = {
            field.name: (getattr(self, field.name), field.default) for field in dataclasses.fields(self)
        }
        return {name: value for name, (value, default) in fields.items() if value != default}

    @classmethod
    def of_json(cls, value: Any) -> Position:
        """Return the position that `to_json` returned this for.

        Raises:
            PositionError: It is something else, such as the position of another version.
        """
        try:
            return cls(**value)
        except TypeError as exc:
            raise PositionError(f"a position of another kind or version of muster: {value!r}.") from exc


class StepInput(ABC):
    """The input of steps: ``next`` gives each its batch.

    There are three kinds: what this worker reads by itself, `OwnInput`; what several workers read, who agree
    before each step, `SynchronizedInput`; and what is handed out to workers by number, `DispatchedInput`.

    Attributes:
        example: A batch of one replica, to trace a step with; None if there is none.
    """

    example: Any

    @property
    @abstractmethod
    def share(self) -> str:
        """Describe the part of the data that this worker reads, for messages."""

    @abstractmethod
    def __next__(self) -> Any:
        """Return the batch of the next step.

        Raises:
            StopIteration: There are no more steps.
        """

    @abstractmethod
    def position(self, steps: int | None = None) -> Position:
        """Return where the input goes on.

        Args:
            steps: How many steps have been taken since it was opened; None if as many as have got a batch.
        """

    def close(self) -> None:  # noqa: B027
        """End threads, and close files, if there are any."""

    def __iter__(self) -> Iterator[Any]:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
