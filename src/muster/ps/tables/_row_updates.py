"""Apply gradients to some rows of a table: duplicates first, and then few different numbers of rows."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from muster.ps.tables._ids import Ids
from muster.ps.tables._pieces import Array
from muster.ps.tables._row_store import Places, RowStore, scratch

# Rows are updated in powers of two at a time between these, each of which is compiled once.
_LEAST, _MOST = 1 << 6, 1 << 14


class RowUpdate(Protocol):
    """The update of an optimizer, which computes each row from the same row of its arguments."""

    def __call__(self, rows: Sequence[Array], gradients: Array, numbers: Sequence[Any]) -> Sequence[Array]:
        """Return the new rows and slots; nothing of what is given is held on to."""

    @property
    def numbers(self) -> int:
        """How many numbers it takes, such as the learning rate."""


class Updater:
    """Updates rows of a store.

    Args:
        table: The table's name.
        store: The rows.
        start: The column of the rows themselves, which the slots follow.
        update: Updates as many rows as it gets.
    """

    def __init__(self, table: str, store: RowStore, start: int, update: RowUpdate) -> None:
        self._table = table
        self._store = store
        self._start = start
        self._update = update
        # Gradients are as the rows are.
        self._columns = (*store.columns[start:], store.columns[start])
        self._buffers: dict[int, list[Array]] = {}

    def check(self, numbers: Sequence[Any]) -> None:
        """Raise ValueError unless the update takes these numbers."""
        if len(numbers) != self._update.numbers or any(np.shape(number) for number in numbers):
            given = ", ".join(f"{type(each).__name__}{list(np.shape(each))}" for each in numbers) or "none"
            raise ValueError(
                f"The update of table {self._table!r} takes {self._update.numbers} numbers. It was given: "
                f"{given}."
            )

    def apply(self, places: Places, gradients: Array, numbers: Sequence[Any]) -> None:
        """Update the rows at places, no two of which are the same, with numbers that `check` has passed."""
        for begin in range(0, len(places), _MOST):
            some = places[begin : begin + _MOST]
            count = len(some)
            size = max(_LEAST, 1 << (count - 1).bit_length())
            if size not in self._buffers:
                self._buffers[size] = scratch(self._columns, size)
            *rows, padded = self._buffers[size]
            # What comes after the rows is computed in vain, from rows that there are.
            self._store.read_into(np.resize(some, size), rows, self._start)
            padded[:count] = gradients[begin : begin + count]
            padded[count:] = 0
            made = self._update(rows, padded, numbers)
            self._store.write(some, [each[:count] for each in made], self._start)


def summed(ids: Ids, gradients: Array) -> tuple[Ids, Array, Ids]:
    """Add up the gradients of each id.

    Args:
        ids: Of shape (n,).
        gradients: Of shape (n, ...).

    Returns:
        The ids without duplicates, in order; the sum of each, in the order in which they were given; and how
        often each was there.
    """
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    is_first = np.ones(len(ids), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    firsts = np.flatnonzero(is_first)
    sums = gradients[order[firsts]]
    if len(firsts) < len(ids):
        np.add.at(sums, (np.cumsum(is_first) - 1)[~is_first], gradients[order[~is_first]])
    return ordered[firsts], sums, np.diff(firsts, append=len(ids))
