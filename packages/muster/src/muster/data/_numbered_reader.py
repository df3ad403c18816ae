"""Elements by their number, read on a thread."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from muster.data._numbered import NumberedElements

# The largest distance between elements that are asked for after which the next ones are foreseen.
_STRIDE = 16


class _Failure(NamedTuple):
    """Says what reading an element has raised."""

    error: Exception


class NumberedReader:
    """Reads elements of a pass that it is asked for, on a thread, and those that are probably asked for next.

    Unless it is told them, these follow at the same distance, as they do for one of several readers who go on
    equally fast.

    Args:
        open: Opens the pass, on the thread.
        wake: Called, on the thread, when there is something new.
        in_order: Whether elements are asked for in order. Then the thread ends with the first one that fails
            or is not there, and so fail all after it.
    """

    def __init__(
        self,
        open: Callable[[], NumberedElements],
        wake: Callable[[], None] = lambda: None,
        *,
        in_order: bool = False,
    ) -> None:
        self._open = open
        self._wake = wake
        self._in_order = in_order
        self._changed = threading.Condition()
        self._wanted: list[int] = []  # in this order
        self._last: int | None = None  # the last number that was asked for
        self._made: dict[int, Any] = {}
        self._error: Exception | None = None
        self._ended = self._closed = False
        self._thread = threading.Thread(target=self._run, name="muster-draws", daemon=True)
        self._thread.start()

    def ask(self, numbers: Sequence[int], following: Sequence[int] | None = None) -> None:
        """Begin to read elements; others that were asked for before are forgotten.

        Args:
            numbers: Their numbers.
            following: Those of what is probably asked for next; None foresees them.
        """
        with self._changed:
            self._wanted = [*numbers, *(foreseen(self._last, numbers) if following is None else following)]
            self._last = numbers[-1] if numbers else self._last
            # What failed is tried again.
            self._made = {
                number: made
                for number, made in self._made.items()
                if number in self._wanted and not isinstance(made, _Failure)
            }
            self._changed.notify_all()

    def ready(self, number: int) -> bool:
        """Return whether `take` returns at once."""
        with self._changed:
            return self._ended or number in self._made

    def take(self, number: int) -> Any:
        """Wait for an element that was asked for, and return it; it stays until others are asked for.

        Raises:
            NoElementError: The pass has no element of this number.
            Exception: What the dataset has raised.
            ValueError: This is closed.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._ended or number in self._made)
            made = self._made.get(number, _Failure(self._error or ValueError("This reader was closed.")))
        if isinstance(made, _Failure):
            raise made.error
        return made

    def close(self) -> None:
        """Let the thread end, once the dataset has made the element that it is at."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def join(self, timeout_secs: float) -> None:
        """Wait for the end of the thread: for what owns it."""
        self._thread.join(timeout_secs)

    def _run(self) -> None:
        try:
            with self._open() as elements:
                del self._open  # it may hold data
                while (number := self._next()) is not None:
                    made: Any
                    try:
                        made = elements.read(number)
                    except Exception as exc:
                        if self._in_order:
                            raise
                        made = _Failure(exc)
                    with self._changed:
                        self._made[number] = made
                        self._changed.notify_all()
                    self._wake()
        except Exception as exc:
            self._error = exc
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()
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
