"""Ids of rows that a step asks a table for, on the host: each once, in order, and checked."""

from typing import Any

import numpy as np

from muster._errors import DatasetError

NO_ROW = 2**31 - 1
"""An id that asks for no row, for where there is nothing to look up. It gives a row of NaNs."""

LEAST_TABLE_BYTES = 1 << 20
"""A table of fewer bytes travels as a whole, and is updated as one: that costs little, and leaves no row out."""


def unique_ids(table: str, ids: Any, rows: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Return the ids that look-ups of a table ask for, each once, in ascending order.

    Args:
        table: The table's name, for errors.
        ids: int32 of shape (n,); `NO_ROW` asks for none.
        rows: The number of rows of the table.

    Raises:
        DatasetError: The table has no such row.
    """
    unique: np.ndarray[Any, np.dtype[np.int32]] = np.unique(np.asarray(ids, np.int32))
    if unique.size and unique[-1] == NO_ROW:
        unique = unique[:-1]
    if unique.size and (unique[0] < 0 or unique[-1] >= rows):
        wrong = unique[0] if unique[0] < 0 else unique[-1]
        raise DatasetError(
            f"{table}: received an id value of {wrong} which is outside the valid range of [0, {rows}). Give "
            f"the table more rows, or map such ids to one that it has; an id of {NO_ROW} asks for none."
        )
    return unique
