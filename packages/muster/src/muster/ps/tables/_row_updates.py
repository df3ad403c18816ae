"""Rows of tables that an update is given, padded to few sizes so that few programs are compiled."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from muster.ps._array_spec import ArraySpec
from muster.ps._flat_layout import Array, FlatLayout
from muster.ps.tables._row_store import Columns, Places
from muster.ps.tables._spec import Column

# Rows are updated in powers of two at a time between these, for each of which a program is compiled.
_LEAST, _MOST = 1 << 6, 1 << 14
# How many times as many rows as there are may be computed, before a program for fewer is compiled: a program
# updates the rows of several tables, and is compiled for each combination of their sizes.
_SPARE = 4


class GivenRows(NamedTuple):
    """Groups the arrays that an update is given of a table.

    Attributes:
        rows: Some rows, of each column.
        pushed: What is pushed for each of them, such as its gradient.
    """

    rows: Sequence[Any]
    pushed: Sequence[Any]


class PaddedRows:
    """Takes rows out of a table to update them, and puts new ones back.

    Args:
        columns: The rows and their slots.
        pushed: What is pushed for each row.

    Attributes:
        columns: The columns of the rows.
        pushed: As given.
    """

    def __init__(self, columns: Columns, pushed: Sequence[Column]) -> None:
        self.columns, self.pushed = columns.columns, tuple(pushed)
        self._columns = columns
        self._size = 0
        self._places = np.zeros(0, np.int64)

    @property
    def most(self) -> int:
        """The number of rows that are updated at once, at most."""
        return _MOST

    def size(self, count: int) -> int:
        """Return how many rows are computed where some are updated, at least one and `most` at most."""
        size = max(_LEAST, 1 << (count - 1).bit_length())
        if not size <= self._size < _SPARE * size:
            self._size, self._places = size, np.zeros(size, np.int64)
        return self._size

    def take(self, places: Places, pushed: Sequence[Array], into: GivenRows) -> None:
        """Fill arrays of `size` rows with what an update is to be given.

        Args:
            places: Where the rows are, no two at the same place.
            pushed: What is pushed for each.
            into: The arrays.
        """
        count, read = len(places), self._places
        # What comes after the rows is computed in vain, from a row that there is.
        read[:count] = places
        read[count:] = places[0]
        self._columns.read_into(read, into.rows)
        for padded, given in zip(into.pushed, pushed, strict=True):
            padded[:count] = given
            padded[count:] = 0

    def put(self, places: Places, new: Sequence[Array]) -> None:
        """Put the new rows of all columns at places; more may follow them, which do not count."""
        count = len(places)
        self._columns.write(places, [each[:count] for each in new])


class RowBuffers:
    """The memory of what an update is given of several tables: few flat buffers, as arguments take time.

    Args:
        tables: The tables; None for one of which rows are looked up only.
        sizes: Of how many rows of each an update is; 0 for one that is left out.

    Attributes:
        sizes: As given.
        flat: The buffers, by the name of their dtype.
        tables: What they have of each table; None for one that is left out.
    """

    def __init__(self, tables: Sequence[PaddedRows | None], sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        self._of_tables = [
            None if table is None or not size else (len(table.columns), len(table.pushed))
            for table, size in zip(tables, sizes, strict=True)
        ]
        given: list[ArraySpec] = []
        made: list[ArraySpec] = []
        for number, (table, size) in enumerate(zip(tables, sizes, strict=True)):
            if table is not None and size:
                rows = [_spec(f"{number} {i}", each, size) for i, each in enumerate(table.columns)]
                made += rows
                given += rows
                given += [_spec(f"{number} push {i}", each, size) for i, each in enumerate(table.pushed)]
        self._given, self._made = FlatLayout(given), FlatLayout(made)
        self.flat = self._given.allocate()
        self.tables = self.given(self.flat)

    def given(self, flat: Mapping[str, Any]) -> list[GivenRows | None]:
        """Return what buffers like `flat` have of each table; traceable."""
        left = iter(self._given.unpack(flat).values())
        return [
            each and GivenRows([next(left) for _ in range(each[0])], [next(left) for _ in range(each[1])])
            for each in self._of_tables
        ]

    def made(self, flat: Mapping[str, Any]) -> list[Sequence[Any]]:
        """Return the new rows of all columns of each table, which are one after the other in buffers."""
        left = iter(self._made.unpack(flat).values())
        return [[next(left) for _ in range(each[0])] if each else () for each in self._of_tables]


def _spec(name: str, column: Column, size: int) -> ArraySpec:
    return ArraySpec(name, (size, *column.shape), column.dtype.name)
