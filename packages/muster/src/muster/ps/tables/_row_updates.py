"""Update some rows of a table, padded to few sizes so that few programs are compiled."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from muster.ps._flat_layout import Array
from muster.ps.tables._row_store import Columns, Places, scratch
from muster.ps.tables._spec import Column

# Rows are updated in powers of two at a time between these, each of which is compiled once.
_LEAST, _MOST = 1 << 6, 1 << 14


class RowUpdate(Protocol):
    """The update of an optimizer, which computes each row from the same row of its arguments."""

    def __call__(
        self, rows: Sequence[Array], pushed: Sequence[Array], others: Sequence[Any]
    ) -> Sequence[Array]:
        """Return the new rows of all columns; nothing of what is given is held on to.

        Args:
            rows: Those of each column.
            pushed: What is pushed for each row, such as its gradient.
            others: What it reads beside that, such as the learning rate.
        """


class Updater:
    """Updates rows.

    Args:
        columns: The rows and their slots.
        pushed: What is pushed for each row.
        update: Updates as many rows as it gets.
    """

    def __init__(self, columns: Columns, pushed: Sequence[Column], update: RowUpdate) -> None:
        self._columns = columns
        self._pushed = tuple(pushed)
        self._update = update
        self._held = len(columns.columns)
        self._buffers: dict[int, tuple[Places, list[Array]]] = {}

    def apply(self, places: Places, pushed: Sequence[Array], others: Sequence[Any]) -> None:
        """Update the rows at places, no two of which are the same.

        Args:
            places: The places.
            pushed: What is pushed for each.
            others: What else the update reads.
        """
        for begin in range(0, len(places), _MOST):
            some = places[begin : begin + _MOST]
            count = len(some)
            size = max(_LEAST, 1 << (count - 1).bit_length())
            if size not in self._buffers:
                made = scratch((*self._columns.columns, *self._pushed), size)
                self._buffers[size] = np.empty(size, np.int64), made
            read, buffers = self._buffers[size]
            rows, padded = buffers[: self._held], buffers[self._held :]
            # What comes after the rows is computed in vain, from a row that there is.
            read[:count] = some
            read[count:] = some[0]
            self._columns.read_into(read, rows)
            for into, given in zip(padded, pushed, strict=True):
                into[:count] = given[begin : begin + count]
                into[count:] = 0
            new = self._update(rows, padded, others)
            self._columns.write(some, [each[:count] for each in new])
