"""A worker's side of a shared iterator: reads batches by the numbers that it is assigned."""

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from muster._errors import DatasetError
from muster.data import Dataset, NumberedElements, NumberedReader
from muster.distribute.closures._drawing import END, Batches, DrawnElement


class Reading:
    """One pass over a dataset, of which a thread reads what is asked for.

    Args:
        make: Makes the dataset.
        position: Where the pass begins.
        wake: Called, on the thread, when there is something new.
    """

    def __init__(
        self, make: Callable[[], Dataset], position: Mapping[str, Any], wake: Callable[[], None]
    ) -> None:
        def opened() -> NumberedElements:
            batches = Batches()
            return make().numbered(position, convert=lambda elements: map(batches.of, elements))

        self._reader = NumberedReader(opened, wake)
        self._asked: collections.deque[int | None] = collections.deque()

    def ask(self, numbers: Sequence[int | None]) -> None:
        """Begin to read the batches that `take` is to return next.

        Args:
            numbers: Their numbers; None for the end of the pass.
        """
        self._asked = collections.deque(numbers)
        self._reader.ask([number for number in numbers if number is not None])

    def ready(self) -> bool:
        """Return whether `take` returns at once."""
        return self._asked[0] is None or self._reader.ready(self._asked[0])

    def take(self) -> DrawnElement:
        """Return the next batch, or the end.

        Raises:
            Exception: What the dataset, or the code that makes it, has raised.
        """
        number = self._asked.popleft()
        if number is None:
            return END
        try:
            batch: DrawnElement = self._reader.take(number)
        except IndexError as exc:
            raise DatasetError(
                f"This worker's dataset has no batch {number}, which the coordinator hands out. With "
                'dispatch="dynamic" datasets must be the same wherever they are made.'
            ) from exc
        return batch

    def give_back(self, batches: Sequence[DrawnElement]) -> None:
        """Do nothing: batches stay until others are asked for."""

    def close(self) -> None:
        """Let the thread end, once the dataset has made the element that it is at."""
        self._reader.close()

    def join(self, timeout_secs: float) -> None:
        """Wait for the end of the thread: for what owns it."""
        self._reader.join(timeout_secs)
