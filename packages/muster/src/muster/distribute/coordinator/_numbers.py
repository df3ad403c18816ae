"""The numbers of the batches of a pass that workers share."""

import heapq
from collections.abc import Callable, Iterable


class Numbers:
    """Hands out the numbers of the elements of a pass, each once; those that came back go first.

    Args:
        has: Returns whether there is an element of a number.
        start: The first number that was not handed out yet.
        returned: Numbers below that are to be handed out again.
    """

    def __init__(self, has: Callable[[int], bool], start: int = 0, returned: Iterable[int] = ()) -> None:
        self._has = has
        self._returned = sorted(returned)  # a heap
        self.next = start

    @property
    def returned(self) -> list[int]:
        """The numbers that came back, in order."""
        return sorted(self._returned)

    def take(self) -> int | None:
        """Return a number; None if all are handed out."""
        if self._returned:
            return heapq.heappop(self._returned)
        if not self._has(self.next):
            return None
        self.next += 1
        return self.next - 1

    def give_back(self, number: int) -> None:
        """Take a number back that has had no effect."""
        heapq.heappush(self._returned, number)
