"""The mean of what workers push in a round."""

from collections.abc import Sequence

import numpy as np

from muster.ps._flat_layout import Array, Flat
from muster.ps.contents import CheckedPush, RowPush


class RoundSums:
    """Adds up the pushes of a round.

    Of integers, those of the last push count; what is true or false must be true in all pushes. Rows that
    were not pushed are zeros, or false where one that says so is enough.
    """

    def __init__(self) -> None:
        self._sums: Flat = {}
        self._count = 0
        self._rows: list[list[RowPush]] = []  # of each push

    def add(self, push: CheckedPush) -> None:
        """Add a push to those of the round, in memory of its own."""
        self._sums = self._sums or {name: np.empty_like(array) for name, array in push.flat.items()}
        for name, array in push.flat.items():
            _add(self._sums[name], array, first=not self._count)
        if push.rows:  # copies, since the next push is received where this one is
            self._rows.append([_copied(each) for each in push.rows])
        self._count += 1

    def mean(self) -> tuple[Flat, list[RowPush]] | None:
        """Return the mean of the pushes, and begin the next round; None if there were none."""
        if not self._count:
            return None
        for total in self._sums.values():
            _divide(total, self._count)
        rows = [mean_of_rows(each) for each in zip(*self._rows, strict=True)]
        self._count, self._rows = 0, []
        return self._sums, rows


def mean_of_rows(pushes: Sequence[RowPush]) -> RowPush:
    """Return the mean of what workers have pushed for rows of a table: see `RoundSums`."""
    ids = np.unique(np.concatenate([push.ids for push in pushes]))
    rows = [np.zeros((len(ids), *each.shape[1:]), each.dtype) for each in pushes[0].rows]
    whole = [each.copy() for each in pushes[0].whole]
    for number, push in enumerate(pushes):
        places = np.searchsorted(ids, push.ids)
        for total, array in zip(rows, push.rows, strict=True):
            if array.dtype.kind == "b":
                total[places] |= array
            elif array.dtype.kind in "iu":
                total[places] = array
            else:
                total[places] += array
        for total, array in zip(whole, push.whole, strict=True):
            _add(total, array, first=not number)
    for total in (*rows, *whole):
        _divide(total, len(pushes))
    return RowPush(ids, tuple(rows), tuple(whole))


def _copied(push: RowPush) -> RowPush:
    rows, whole = (tuple(array.copy() for array in each) for each in (push.rows, push.whole))
    return RowPush(push.ids.copy(), rows, whole)


def _add(total: Array, array: Array, *, first: bool) -> None:
    if not first and array.dtype.kind == "b":
        total &= array
    elif not first and array.dtype.kind not in "iu":
        total += array
    else:
        total[...] = array


def _divide(total: Array, count: int) -> None:
    if total.dtype.kind not in "biu":
        total /= total.dtype.type(count)
