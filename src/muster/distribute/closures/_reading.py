"""A worker's part of an iterator that workers share: it reads the batches of which it is told the numbers."""

import collections
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from muster._errors import DatasetError
from muster.data import Dataset, NumberedElements
from muster.distribute.closures._drawing import END, Batch, Batches

# The largest distance between the batches of two closures after which those of a third are foreseen.
_STRIDE = 16


class Reading:
    """One pass over a dataset, of which a thread reads what is asked for.

    It reads ahead what it will be asked for next if other workers go on as fast as they did.

    Args:
        make: Makes the dataset.
        position: Where the pass begins.
        wake: Called, on the thread, when there is something new.
    """

    def __init__(
        self, make: Callable[[], Dataset], position: Mapping[str, Any], wake: Callable[[], None]
    ) -> None:
        self._make = make
        self._position = position
        self._wake = wake
        self._changed = threading.Condition()
        self._asked: collections.deque[int | None] = collections.deque()
        self._wanted: list[int] = []  # in this order
        self._last: int | None = None  # the last number that was asked for
        self._made: dict[int, Batch | Exception] = {}
        self._error: Exception | None = None
        self._ended = self._closed = False
        self._thread = threading.Thread(target=self._read, name="muster-draws", daemon=True)
        self._thread.start()

    def ask(self, numbers: Sequence[int | None]) -> None:
        """Begin to read the batches that `take` is to return next.

        Args:
            numbers: Their numbers; None for the end of the pass.
        """
        known = [number for number in numbers if number is not None]
        with self._changed:
            self._asked = collections.deque(numbers)
            self._wanted = known + foreseen(self._last, known)
            self._last = known[-1] if known else self._last
            # What failed is tried again.
            self._made = {n: b for n, b in self._made.items() if n in self._wanted and isinstance(b, Batch)}
            self._changed.notify()

    def ready(self) -> bool:
        """Whether `take` can be called."""
        with self._changed:
            return self._ended or self._asked[0] is None or self._asked[0] in self._made

    def take(self) -> Batch:
        """Return the next element, or the end; call it when this is ready.

        Raises:
            Exception: What the dataset, or the code that makes it, has raised.
        """
        with self._changed:
            number = self._asked.popleft()
            if number is None:
                return END
            made = self._made.get(number, self._error)
        if isinstance(made, Batch):
            return made
        raise made or DatasetError("The dataset was closed while it was read.")

    def give_back(self, batches: Sequence[Batch]) -> None:
        """Do nothing: batches stay until others are asked for."""

    def close(self) -> None:
        """Let the thread end, once the dataset has made the element that it is at."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def join(self, timeout_secs: float) -> None:
        """Wait for the end of the thread: for what owns it."""
        self._thread.join(timeout_secs)

    def _read(self) -> None:
        try:
            dataset = self._make()
            del self._make  # it may hold data
            batches = Batches()
            with dataset.numbered(self._position) as elements:
                while (number := self._next()) is not None:
                    made = _read(elements, number, batches)
                    with self._changed:
                        self._made[number] = made
                    self._wake()
        except Exception as exc:
            self._error = exc
        finally:
            with self._changed:
                self._ended = True
            self._wake()

    def _next(self) -> int | None:
        """Wait for a number to read; None when this is closed."""
        with self._changed:
            while not self._closed:
                number = next((each for each in self._wanted if each not in self._made), None)
                if number is not None:
                    return number
                self._changed.wait()
        return None


def foreseen(last: int | None, asked: Sequence[int]) -> list[int]:
    """Return the numbers that are probably asked for next, after these, and the last one before them."""
    if last is None or not asked or not 0 < asked[0] - last <= _STRIDE:
        return []
    begin = asked[-1] + asked[0] - last
    return list(range(begin, begin + len(asked)))


def _read(elements: NumberedElements, number: int, batches: Batches) -> Batch | Exception:
    try:
        return batches.of(elements.read(number))
    except IndexError:
        return DatasetError(
            f"This worker's dataset has no batch {number}, which the coordinator hands out. With "
            'dispatch="dynamic" datasets must be the same wherever they are made.'
        )
    except Exception as exc:
        return exc
