"""A worker's side of an iterator: a thread reads batches by number, and closures that wait can be stopped."""

import collections
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from muster._errors import DatasetError
from muster.data import Dataset, NoElementError, NumberedElements, NumberedReader
from muster.distribute.closures._messages import ArrayKind
from muster.distribute.engine._limits import Limits

# How many batches of a pass of its own a worker reads before they are asked for.
_AHEAD = 2


class DrawnElement(NamedTuple):
    """An element of a dataset.

    Attributes:
        leaves: Its arrays; none at the end of the dataset.
        kinds: Their shapes and dtypes; None at the end of the dataset.
    """

    leaves: Sequence[Any]
    kinds: tuple[ArrayKind, ...] | None


_END = DrawnElement((), None)


class Reading:
    """One pass over a dataset, of which a thread reads what closures take.

    Args:
        make: Makes the dataset.
        position: Where the pass begins that all workers share; None if it is this worker's own, of which
            closures take one batch after the other.
        wake: Called, on the thread, when there is something new.
    """

    def __init__(
        self, make: Callable[[], Dataset], position: Mapping[str, Any] | None, wake: Callable[[], None]
    ) -> None:
        # A worker's own order, also where all workers seed Python's random numbers alike.
        seed = secrets.randbits(63) if position is None else None

        def opened() -> NumberedElements:
            batches = _Batches()
            return make().numbered(position, seed=seed, convert=lambda elements: map(batches.of, elements))

        self._reader = NumberedReader(opened, wake, in_order=position is None)
        self._asked: collections.deque[int | None] = collections.deque()
        self._next: int | None = None  # the number of the next batch of a pass of its own
        if position is None:
            self._next = 0
            self._reader.ask((), range(_AHEAD))

    def ask(self, numbers: Sequence[int | None]) -> None:
        """Begin to read the batches that `take` is to return next.

        Args:
            numbers: Their numbers; None for the end of the pass. Of a pass of its own only how many counts.
        """
        if self._next is None:
            self._asked = collections.deque(numbers)
            self._reader.ask([number for number in numbers if number is not None])
            return
        end = self._next + len(numbers)
        self._asked = collections.deque(range(self._next, end))
        self._reader.ask(range(self._next, end), range(end, end + _AHEAD))

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
            return _END
        try:
            batch: DrawnElement = self._reader.take(number)
        except NoElementError as exc:
            if self._next is not None:
                return _END
            raise DatasetError(
                f"This worker's dataset has no batch {number}, which the coordinator hands out. With "
                'dispatch="dynamic" datasets must be the same wherever they are made.'
            ) from exc
        if self._next is not None:
            self._next += 1
        return batch

    def give_back(self, batches: Sequence[DrawnElement]) -> None:
        """Take back what was taken last of a pass of its own: it is the next. Others say what is the next."""
        if self._next is not None:
            self._next -= sum(batch.kinds is not None for batch in batches)

    def close(self) -> None:
        """Let the thread end, once the dataset has made the element that it is at."""
        self._reader.close()

    def join(self, timeout_secs: float) -> None:
        """Wait for the end of the thread: for what owns it."""
        self._reader.join(timeout_secs)


class _Batches:
    """Makes batches of elements, and checks that JAX can take their numbers."""

    def __init__(self) -> None:
        self._limits: Limits | None = None

    def of(self, element: Any) -> DrawnElement:
        """Return the batch of an element.

        Raises:
            DatasetError: It holds a number that JAX would cut off.
        """
        leaves = jax.tree.leaves(element)
        self._limits = self._limits or Limits(leaves)
        self._limits.check(leaves, element)
        return DrawnElement(leaves, tuple(map(kind_of, leaves)))


def kind_of(array: Any) -> ArrayKind:
    """Return the shape and dtype of an array or number."""
    dtype = getattr(array, "dtype", None)
    return ArrayKind(tuple(np.shape(array)), str(np.asarray(array).dtype if dtype is None else dtype))
