"""What tables give away for a snapshot, a piece at a time, and take back."""

from typing import Any, NamedTuple

import msgspec
import numpy as np

from muster.ps.tables._ids import Ids

Array = np.ndarray[Any, np.dtype[Any]]


class Piece(NamedTuple):
    """Some rows, in any order; a snapshot has each row once.

    Attributes:
        part: Which part of the table they belong to, from 0.
        ids: Their ids, of shape (n,).
        arrays: What is kept for them, each of n rows; none if these ids are not in the part any more.
    """

    part: int
    ids: Ids
    arrays: tuple[Array, ...]


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """Describe a snapshot.

    Args:
        table: The table's name.
        parts: The shape for a row and the name of the dtype of each array, for each part.
        whole: Whether it has all rows; else those that changed since another one, which has.
        origin: The random id of the snapshot with all rows: this one, or that other one.
        clock: How many pushes the table has seen.
    """

    table: str
    parts: tuple[tuple[tuple[tuple[int, ...], str], ...], ...]
    whole: bool
    origin: str
    clock: int = 0
