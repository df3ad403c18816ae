"""Assign a closure its batches from passes over the data that workers share."""

import collections
from collections.abc import Sequence

from muster._errors import OutOfRangeError
from muster.distribute.closures import ClosureDraw
from muster.distribute.coordinator._per_worker import DispatchedIterator, PerWorkerIterator


class BatchLease:
    """The batches that one closure draws of iterators that workers share.

    Args:
        iterators: The iterators of the closure, by their number among its sources.
    """

    def __init__(self, iterators: Sequence[PerWorkerIterator]) -> None:
        self._iterators = {
            source: each for source, each in enumerate(iterators) if isinstance(each, DispatchedIterator)
        }

    def numbers_for(self, draws: Sequence[ClosureDraw]) -> tuple[int | None, ...]:
        """Return the number of the batch for each draw of a program; nothing if no iterator is shared.

        The number is None at the end of an iterator, and for those that each worker has for itself. Programs
        of one function may draw differently, as at the end: what is missing is taken now.

        Raises:
            OutOfRangeError: There are not enough, and the program needs them. All that was taken goes back.
        """
        if not self._iterators:
            return ()
        left = {source: collections.deque(each.held(self)) for source, each in self._iterators.items()}
        numbers: list[int | None] = []
        asked = False  # whether the program knows of an end, so that another one may follow
        for draw in draws:
            number = None
            if draw.source in left:
                iterator, had = self._iterators[draw.source], left[draw.source]
                number = had.popleft() if had else iterator.take(self)
                if number is None and draw.optional:
                    asked = True
                elif number is None and not asked:
                    count = len(iterator.held(self))
                    self.give_back()
                    raise _out_of_range(count)
            numbers.append(number)
        return tuple(numbers)

    def end(self, draws: Sequence[ClosureDraw]) -> None:
        """Give back what the program that has run has not drawn."""
        for source, iterator in self._iterators.items():
            iterator.end(self, sum(draw.source == source for draw in draws))

    def give_back(self) -> None:
        """Let other closures draw the batches, since this one has had no effect."""
        for iterator in self._iterators.values():
            iterator.end(self)


def _out_of_range(left: int) -> OutOfRangeError:
    return OutOfRangeError(
        f"End of sequence: the function takes more batches than the {left} that are left of this pass. They "
        "stay, to be drawn one by one."
        if left
        else "End of sequence: all batches of this pass are handed out. Make another iterator for the next "
        "pass."
    )
