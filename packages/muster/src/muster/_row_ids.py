"""Deduplicate, sort and check the row ids that a step requests from a table, on the host."""

from typing import Any

import numpy as np

from muster._errors import DatasetError

NO_ROW = 2**31 - 1
"""An id that asks for no row, for where there is nothing to look up. It gives a row of NaNs."""

HASHED_ROWS = NO_ROW
"""The number of rows that a hashed table has in programs, which number the ids of a batch."""

NO_ID = -1
"""An id of 64 bits that asks for no row of a hashed table."""

LEAST_TABLE_BYTES = 1 << 20
"""A table of fewer bytes travels as a whole, and all of it is updated: that costs little, and is exact."""


def unique_ids(
    table: str, ids: Any, rows: int, *, checks: bool = True
) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Return the ids that look-ups of a table ask for, each once, in ascending order.

    Args:
        table: The table's name, for errors.
        ids: int32 of shape (n,); `NO_ROW` asks for none.
        rows: The number of rows of the table.
        checks: Whether other ids are an error; else they are left out.

    Raises:
        DatasetError: The table has no such row.
    """
    ordered: np.ndarray[Any, np.dtype[np.int32]] = np.array(ids, np.int32)
    ordered.sort()
    first = np.empty(len(ordered), bool)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    unique = ordered[first]  # as np.unique does, in a third of the time for the few ids of a batch
    if unique.size and unique[-1] == NO_ROW:
        unique = unique[:-1]
    if not checks:
        return unique[(unique >= 0) & (unique < rows)]
    if unique.size and (unique[0] < 0 or unique[-1] >= rows):
        wrong = unique[0] if unique[0] < 0 else unique[-1]
        raise DatasetError(
            f"{table}: received an id value of {wrong} which is outside the valid range of [0, {rows}). Give "
            f"the table more rows, or map such ids to one that it has; an id of {NO_ROW} asks for none."
        )
    return unique


def wide_ids(ids: Any) -> np.ndarray[Any, np.dtype[np.uint32]]:
    r"""Return ids of 64 bits as JAX, which computes with 32 bits, can hold them: for ``HashEmbedding``.

    Args:
        ids: Integers of any shape S; `NO_ID`, -1, asks for no row.

    Returns:
        uint32 of shape (\*S, 2): the lower and the upper half of each id.

    Raises:
        TypeError: They are no integers.

    Example:
        ```python
        assert muster.data.wide_ids([2**40, 7]).tolist() == [[0, 256], [7, 0]]
        ```
    """
    array = np.asarray(ids)
    if array.dtype.kind not in "iu":
        raise TypeError(f"wide_ids takes integers, got dtype {array.dtype}. Hash text before.")
    return np.ascontiguousarray(array.astype("<i8")).view("<u4").reshape(*array.shape, 2)


def unique_wide_ids(
    pairs: Any,
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.int32]]]:
    """Return ids of 64 bits, each once, in ascending order, and the place of each given one among them.

    Args:
        pairs: As `wide_ids` returns them, of shape (n, 2).

    Returns:
        The ids, int64, without `NO_ID`; and the places, int32 of shape (n,), with `NO_ROW` for it.
    """
    ids = np.ascontiguousarray(np.asarray(pairs, "<u4")).view("<i8").reshape(-1)
    there = ids != NO_ID
    unique, places = np.unique(ids[there], return_inverse=True)
    numbers = np.full(len(ids), NO_ROW, np.int32)
    numbers[there] = places
    return unique, numbers
