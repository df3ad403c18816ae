"""Find rows by ids of 64 bits: a hash table with open addressing, for many ids at a time.

Cells are tried at distances of 1, 3, 6, 10 and so on, which reach each of 2**n: next to each other, they
would fill up in runs, of which the longest decides how long a search of many ids takes.
"""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from muster.ps._flat_layout import Array
from muster.ps.tables._ids import Ids, mixed
from muster.ps.tables._row_store import Places

_EMPTY, _REMOVED = -1, -2
_LEAST = 1 << 8
# How many ids are put in again at a time when the table grows.
_CHUNK = 1 << 16


class Keys(Protocol):
    """Holds the ids of all rows, by index."""

    def __call__(self) -> Array:
        """Return them."""


class HashIndex:
    """Places of ids.

    The ids themselves are kept elsewhere, by place, so that each takes 5 to 11 bytes here.

    Args:
        keys: Returns the id at each place. An id must be there before it is added.
    """

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._places = np.full(_LEAST, _EMPTY, np.int32)
        self._used = 0
        self._removed = 0  # since it was built, though their cells may be in use again

    def __len__(self) -> int:
        return self._used

    @property
    def nbytes(self) -> int:
        """The memory that this takes, in bytes."""
        return self._places.nbytes

    def find(self, ids: Ids) -> Places:
        """Return the place of each id; -1 of those that are not here."""
        return self._search(ids)[0]

    def add(self, ids: Ids, places: Places) -> None:
        """Add ids, all different, none of which is here."""
        needed = self._used + len(ids)
        if needed + self._removed > len(self._places) * 3 // 4:
            self._rebuild(needed)
        self._insert(ids, places)
        self._used = needed

    def remove(self, ids: Ids) -> None:
        """Remove ids, all different, that are here."""
        _, cells = self._search(ids)
        self._places[cells] = _REMOVED
        self._used -= len(ids)
        self._removed += len(ids)

    def _search(self, ids: Ids) -> tuple[Places, Places]:
        """Return the place of each id, or -1, and the cell that says so."""
        keys, mask = self._keys(), len(self._places) - 1
        cells = self._home(ids)
        found = np.take(self._places, cells).astype(np.int64)
        left = np.arange(len(ids))
        at, wanted = found, ids
        step = 0
        while True:
            # The key of a cell without a place is some other: what is found does not count there.
            goes_on = (at != _EMPTY) & ((at == _REMOVED) | (np.take(keys, at, mode="clip") != wanted))
            if not goes_on.any():
                return found, cells
            left, step = left[goes_on], step + 1
            cells[left] = (cells[left] + step) & mask
            at = np.take(self._places, cells[left]).astype(np.int64)
            found[left] = at
            wanted = ids[left]

    def _insert(self, ids: Ids, places: Places) -> None:
        mask = len(self._places) - 1
        cells = self._home(ids)
        step = 0
        while len(places):
            step += 1
            free = self._places[cells] < 0
            # Of several that want a cell, the last gets it.
            self._places[cells[free]] = places[free]
            got = free & (self._places[cells] == places)
            cells, places = (cells[~got] + step) & mask, places[~got]

    def _rebuild(self, needed: int) -> None:
        used = self._places[self._places >= 0].astype(np.int64)
        size = max(_LEAST, 1 << (2 * needed - 1).bit_length())
        self._places = np.empty(0, np.int32)  # so that there are never two
        self._places = np.full(size, _EMPTY, np.int32)
        self._removed = 0
        for start in range(0, len(used), _CHUNK):
            some = used[start : start + _CHUNK]
            self._insert(np.take(self._keys(), some), some)

    def _home(self, ids: Ids) -> npt.NDArray[Any]:
        return (mixed(ids.view(np.uint64)) & np.uint64(len(self._places) - 1)).astype(np.int64)
