"""Hand out numbers: of batches that are drawn, and of global steps before they are computed, as tickets."""

import heapq
import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

import numpy as np

from muster.ps._flat_layout import Array

Holder = TypeVar("Holder", bound=Hashable)

OPEN_TICKETS = "open_tickets"
"""The name, in checkpoints, of the tickets whose steps were not made, among those that were given out."""

# How many of them there may be, which is more than the workers of any job.
_MANY = 1024
_NONE = np.iinfo(np.int64).min


def open_tickets(numbers: Sequence[int]) -> Array:
    """Return numbers of tickets as an array of a length that does not depend on how many there are."""
    few = np.asarray(numbers[:_MANY], np.int64)
    return np.concatenate([few, np.full(_MANY - len(few), _NONE)])


def tickets_in(array: Array) -> list[int]:
    """Return the numbers of tickets in an array."""
    return [number for number in array.tolist() if number != _NONE]


class Numbers(Generic[Holder]):
    """Hands out numbers in order, each to one holder at a time; those that come back go first.

    Args:
        next: The first number that was not handed out yet.
        returned: Numbers below that are to be handed out again.

    Attributes:
        next: As given, and then as it is.
    """

    def __init__(self, next: int = 0, returned: Iterable[int] = ()) -> None:
        self.next = next
        self._returned = sorted(returned)  # a heap
        self._held: dict[Holder, list[int]] = {}

    @property
    def returned(self) -> list[int]:
        """The numbers that came back, in order."""
        return sorted(self._returned)

    @property
    def open(self) -> tuple[int, ...]:
        """The numbers that were handed out and are held, or came back."""
        return tuple(sorted([*itertools.chain(*self._held.values()), *self._returned]))

    def holders(self) -> list[Holder]:
        """Return who holds a number."""
        return list(self._held)

    def held(self, holder: Holder) -> list[int]:
        """Return the numbers that somebody holds, in the order in which they were taken."""
        return [*self._held.get(holder, ())]

    def take(self, holder: Holder, has: Callable[[int], bool]) -> int | None:
        """Return the next number, which the holder has from now on; None if there is none.

        Args:
            holder: Who takes it.
            has: Returns whether a number may be handed out.
        """
        number = self._returned[0] if self._returned else self.next
        if not has(number):
            return None
        if self._returned:
            heapq.heappop(self._returned)
        else:
            self.next += 1
        self._held.setdefault(holder, []).append(number)
        return number

    def left(self, most: int, has: Callable[[int], bool]) -> int:
        """Return how many numbers may be taken, up to a number of them."""
        came_back = min(most, len(self._returned))
        return came_back + len([*itertools.takewhile(has, range(self.next, self.next + most - came_back))])

    def use(self, holder: Holder, count: int) -> None:
        """Let the first numbers of a holder, in the order in which they were taken, be done with."""
        self._held[holder] = self._held.get(holder, [])[count:]
        if not self._held[holder]:
            del self._held[holder]

    def give_back(self, holder: Holder) -> None:
        """Take back the numbers of a holder, if it has any: they have had no effect."""
        for number in self._held.pop(holder, ()):
            heapq.heappush(self._returned, number)


class Tickets(Numbers[Holder]):
    """Gives out the numbers of global steps, one to a caller at a time, so that none is made twice.

    A ticket's number is the value of the global step that its step starts from. Steps finish in any order;
    `step` counts those that did.

    Args:
        start: The global step to begin at: how many steps were made.
        open: Those that were not made among the first ones, whose numbers are given out again.
        exact: Whether a number says what its step computes, so that no other step can take its place.
    """

    def __init__(self, start: int = 0, open: Iterable[int] = (), *, exact: bool = False) -> None:
        open = [*open]
        super().__init__(start + len(open), open)
        self.step = start
        self._exact = exact

    def ticket(self, caller: Holder, max_steps: int | None) -> int | None:
        """Return the number of a ticket, or of that which the caller holds; None if none is there now."""
        if held := self._held.get(caller):
            return held[0]
        return self.take(caller, lambda number: max_steps is None or number < max_steps)

    def finished(self, max_steps: int | None) -> bool:
        """Return whether all steps below ``max_steps`` were made, so that no more tickets come."""
        if max_steps is None:
            return False
        return self.next >= max_steps and all(number >= max_steps for number in self.open)

    def finish(self, caller: Holder, number: int, max_steps: int | None) -> bool:
        """Count the step of a ticket, and return whether it counts.

        The caller may have lost its ticket meanwhile. Its step then takes the place of another one that
        nobody has begun; if there is none, it does not count. If numbers are exact, it only counts if nobody
        has begun that very step.
        """
        if self.held(caller) == [number]:
            self.use(caller, 1)
        elif self._exact:
            if number not in self._returned:
                return False
            self._returned.remove(number)
            heapq.heapify(self._returned)
        elif self.ticket(caller, max_steps) is None:
            return False
        else:
            self.use(caller, 1)
        self.step += 1
        return True
