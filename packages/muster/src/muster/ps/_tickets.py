"""Tickets: permissions for one global step each, given before the step is computed."""

import heapq
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

import numpy as np

from muster.ps._flat_layout import Array

Caller = TypeVar("Caller")

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


class Tickets(Generic[Caller]):
    """Gives out the numbers of global steps, each to one caller at a time, so that none is made twice.

    A ticket's number is the value of the global step that its step starts from. Steps finish in any order;
    `step` counts those that did.

    Args:
        start: The global step to begin at: how many steps were made.
        open: Those that were not made among the first ones, whose numbers are given out again.
        exact: Whether a number says what its step computes, so that no other step can take its place.
    """

    def __init__(self, start: int = 0, open: Iterable[int] = (), *, exact: bool = False) -> None:
        self.step = start
        self._returned = sorted(open)  # a heap
        self._next = start + len(self._returned)
        self._exact = exact
        self._held: dict[Caller, int] = {}

    def take(self, caller: Caller, max_steps: int | None) -> int | None:
        """Return the number of a ticket, or of that which the caller holds; None if none is there now."""
        if (held := self._held.get(caller)) is not None:
            return held
        number = self._returned[0] if self._returned else self._next
        if max_steps is not None and number >= max_steps:
            return None
        if self._returned:
            heapq.heappop(self._returned)
        else:
            self._next += 1
        self._held[caller] = number
        return number

    @property
    def open(self) -> tuple[int, ...]:
        """The numbers that were given out, and whose steps were not made."""
        return tuple(sorted([*self._held.values(), *self._returned]))

    def holders(self) -> list[Caller]:
        """Return who holds a ticket."""
        return list(self._held)

    def finished(self, max_steps: int | None) -> bool:
        """Return whether all steps below ``max_steps`` were made, so that no more tickets come."""
        if max_steps is None:
            return False
        numbers = (*self._held.values(), *self._returned)
        return self._next >= max_steps and all(number >= max_steps for number in numbers)

    def finish(self, caller: Caller, number: int, max_steps: int | None) -> bool:
        """Count the step of a ticket, and return whether it counts.

        The caller may have lost its ticket meanwhile. Its step then takes the place of another one that
        nobody has begun; if there is none, it does not count. If numbers are exact, it only counts if nobody
        has begun that very step.
        """
        if self._exact and self._held.get(caller) != number:
            if number not in self._returned:
                return False
            self._returned.remove(number)
            heapq.heapify(self._returned)
            self.step += 1
            return True
        if self._held.get(caller) != number and self.take(caller, max_steps) is None:
            return False
        del self._held[caller]
        self.step += 1
        return True

    def give_back(self, caller: Caller) -> None:
        """Return the ticket of a caller, if it holds one."""
        if (number := self._held.pop(caller, None)) is not None:
            heapq.heappush(self._returned, number)
