"""Refuse what is sent for a table and does not fit it, before anything changes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from muster.ps.tables._ids import Ids
from muster.ps.tables._spec import Column, TableSpec


def as_ids(table: str, ids: Any) -> Ids:
    """Return ids as 64-bit integers.

    Raises:
        ValueError: They are no integers, or not in one dimension.
    """
    array = np.asarray(ids)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise ValueError(
            f"Ids for table {table!r} are {array.dtype}{list(array.shape)}. They must be integers in one "
            "dimension."
        )
    return array.astype(np.int64, copy=False)


def require_arrays(
    table: str, what: str, count: int, columns: Sequence[Column], arrays: Sequence[Any]
) -> None:
    """Raise ValueError unless arrays have as many rows as there are ids, each as its column says."""
    wanted = [f"{column.dtype}{[count, *column.shape]}" for column in columns]
    given = [f"{array.dtype}{list(array.shape)}" for array in arrays]
    if wanted != given:
        raise ValueError(
            f"The {what} for {count} ids of table {table!r} are {', '.join(given) or 'none'}. They must be "
            f"{', '.join(wanted)}."
        )


def untrained(table: str) -> ValueError:
    """Return the error of gradients for a table without an update."""
    return ValueError(f"Table {table!r} has no update for gradients: it is not trained.")


def require_room(spec: TableSpec, rows: int, needed: int, limit: int) -> None:
    """Raise MemoryError if this machine cannot hold a table.

    Args:
        spec: The table.
        rows: How many rows it is to have here.
        needed: The bytes that they take.
        limit: The memory that there is, in bytes.
    """
    if needed > limit:
        raise MemoryError(
            f"{rows} rows of table {spec.name!r}, of {spec.row_nbytes} bytes each with their slots, take "
            f"{needed / 1e9:.3g} GB, and this server has {limit / 1e9:.3g} GB of memory. Give the job more "
            "parameter servers, and divide the table among them; or bound the rows of a hashed table."
        )
