"""Refuse tables that are too large for this machine."""

import math

from muster.ps.tables._spec import TableSpec


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
            f"{rows} rows of table {spec.name}, of {spec.row_nbytes} bytes each with their slots, take "
            f"{needed / 1e9:.3g} GB, and this server has {limit / 1e9:.3g} GB of memory. Give the job "
            f"{math.ceil(needed / limit)} times as many parameter servers, and divide the table among them; "
            "or bound the rows of a hashed table"
        )
