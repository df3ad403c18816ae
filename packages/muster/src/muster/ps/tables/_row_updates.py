"""Rows of a table that an update is given, padded to few sizes so that few programs are compiled."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from muster.ps._flat_layout import Array
from muster.ps.tables._row_store import Columns, Places, scratch
from muster.ps.tables._spec import Column

# Rows are updated in powers of two at a time between these, for each of which a program is compiled.
_LEAST, _MOST = 1 << 6, 1 << 14
# How many times as many rows as there are may be computed, before a program for fewer is compiled: a program
# updates the rows of several tables, and is compiled for each combination of their sizes.
_SPARE = 4


class GivenRows(NamedTuple):
    """What an update is given of a table.

    Attributes:
        rows: Some rows, of each column.
        pushed: What is pushed for each of them, such as its gradient.
        whole: What is pushed for the table as a whole.
    """

    rows: Sequence[Array]
    pushed: Sequence[Array]
    whole: Sequence[Array] = ()


class PaddedRows:
    """Takes rows out of a table to update them, and puts new ones back.

    Args:
        columns: The rows and their slots.
        pushed: What is pushed for each row.
    """

    def __init__(self, columns: Columns, pushed: Sequence[Column]) -> None:
        self._columns = columns
        self._pushed = tuple(pushed)
        self._held = len(columns.columns)
        self._size = 0
        self._buffers: dict[int, tuple[Places, list[Array], list[Array]]] = {}

    def take(self, places: Places, pushed: Sequence[Array], whole: Sequence[Array] = ()) -> GivenRows:
        """Return rows at places, as an update is to be given them; they are valid until the next call.

        Args:
            places: The places, no two of which are the same, of one row at least, and of `most` at most.
            pushed: What is pushed for each.
            whole: What is pushed for the table as a whole.
        """
        count = len(places)
        size = max(_LEAST, 1 << (count - 1).bit_length())
        if not size <= self._size < _SPARE * size:
            self._size = size
        read, rows, padded = self._scratch(self._size)
        # What comes after the rows is computed in vain, from a row that there is.
        read[:count] = places
        read[count:] = places[0]
        self._columns.read_into(read, rows)
        for into, given in zip(padded, pushed, strict=True):
            into[:count] = given
            into[count:] = 0
        return GivenRows(rows, padded, whole)

    def put(self, places: Places, new: Sequence[Array]) -> None:
        """Put the new rows of all columns at places; more may follow them, which do not count."""
        count = len(places)
        self._columns.write(places, [each[:count] for each in new])

    @property
    def most(self) -> int:
        """The number of rows that are updated at once, at most."""
        return _MOST

    def _scratch(self, size: int) -> tuple[Places, list[Array], list[Array]]:
        if (known := self._buffers.get(size)) is None:
            made = scratch((*self._columns.columns, *self._pushed), size)
            known = self._buffers[size] = (
                np.empty(size, np.int64),
                made[: self._held],
                made[self._held :],
            )
        return known
