"""Decide which ids get a row in a hashed table, and which rows are evicted."""

from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from muster.ps.tables._ids import Ids
from muster.ps.tables._row_store import Places

# Rows of too great an age are looked for each time this part of it has passed.
_AGE_SHARE = 8
# When there are too many rows, this part of the bound is given up at a time, so that it costs little a row.
_ROWS_SHARE = 16
_CANDIDATES = 1 << 16


class Keeping(msgspec.Struct, frozen=True, kw_only=True):
    """Say which ids get rows, and for how long.

    Args:
        admit_after: At which push that has it an id gets a row: 1 for the first. A push counts once, however
            often the id stood in its batch. To look an id up, as an evaluation does, makes no difference.
        max_age: For how many pushes a row is kept that none of them changes, at least; at most an eighth
            longer. None for ever.
        max_rows: How many rows a server holds. If there are to be more, a sixteenth is given up, and more
            where a push brings more. None for any number.
        evict: Which those are: the least ``"recently"`` or the least ``"frequently"`` changed ones. Of equal
            ones those with the smallest ids go.

    Raises:
        ValueError: A number is not positive.
    """

    admit_after: int = 1
    max_age: int | None = None
    max_rows: int | None = None
    evict: Literal["recently", "frequently"] = "recently"

    def __post_init__(self) -> None:
        for name in ("admit_after", "max_age", "max_rows"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} is {value}, and must be at least 1.")

    def age_limit(self, clock: int) -> int | None:
        """Return beyond which age rows go at a push; None if no rows go by their age then."""
        if self.max_age is None or clock % max(1, self.max_age // _AGE_SHARE):
            return None
        return self.max_age

    def excess(self, rows: int, needed: int) -> int:
        """Return how many of some rows go, of which a push needs some, which must stay, and brings others.

        Args:
            rows: How many rows there would be.
            needed: How many of these are in the push.
        """
        if self.max_rows is None or rows <= self.max_rows:
            return 0
        return min(rows - needed, rows - self.max_rows + self.max_rows // _ROWS_SHARE)


def most_candidates(rows: int) -> int:
    """Return how many ids without rows are counted at most, beside some rows."""
    return max(_CANDIDATES, rows // 2)


def least(count: int, ranks: npt.NDArray[Any], ids: Ids) -> Places:
    """Return where the lowest ranks are, and where they are equal, the smallest ids.

    Args:
        count: How many, at least 1.
        ranks: Unsigned integers, of shape (n,).
        ids: Of shape (n,), all different.
    """
    limit = np.partition(ranks, count - 1)[count - 1]
    below = np.flatnonzero(ranks < limit)
    equal = np.flatnonzero(ranks == limit)
    return np.concatenate([below, equal[np.argsort(ids[equal])[: count - len(below)]]])
