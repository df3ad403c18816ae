"""Arrays on parameter servers, read and assigned whole: large tables in pieces, which fit beside them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from muster._arrays import dtype_named
from muster._errors import ParameterServerError
from muster.ps import memory_bytes
from muster.ps.contents import StoredArray, StoredHash, StoredName

Array = np.ndarray[Any, Any]

# How many bytes of a table go at once.
_PIECE_BYTES = 32 << 20


class Store(Protocol):
    """All parameter servers of a job, as one thread asks them."""

    def create(self, variables: Sequence[tuple[StoredArray, Array]], /) -> None:
        """Create arrays with values."""

    def create_hashed(self, tables: Sequence[StoredHash], /) -> None:
        """Create hashed tables without rows."""

    def assign_hashed(
        self,
        name: StoredName,
        ids: Array,
        columns: Sequence[Array],
        /,
        *,
        clears: bool = False,
        noted: bool = False,
        waiting: bool = False,
        clock: int | None = None,
    ) -> None:
        """Give rows of a hashed table other values."""

    def read(self, names: Sequence[StoredName], /) -> list[Array]:
        """Return the values of arrays."""

    def assign(self, values: Mapping[StoredName, Array], /) -> None:
        """Set arrays to values."""

    def add(self, values: Mapping[StoredName, Array], /) -> None:
        """Add values to arrays."""

    def make(self, name: StoredName, function: bytes, first: int, /) -> None:
        """Let a server make all rows of an array that was reserved: see `Servers.make`."""

    def reserve(self, arrays: Sequence[StoredArray], /) -> None:
        """Create arrays whose rows are assigned next."""

    def read_rows(self, name: StoredName, start: int, count: int, /) -> Array:
        """Return rows of an array by their numbers in it."""

    def assign_rows(self, name: StoredName, start: int, rows: Array, /) -> None:
        """Set rows of an array."""

    def delete(self, names: Sequence[StoredName], /) -> None:
        """Forget arrays."""

    def close(self) -> None:
        """Close all connections."""


def comes_in_pieces(array: StoredArray) -> bool:
    """Return whether an array is so large that its rows go a piece at a time: one that is held by rows."""
    return array.by_rows and array.spec.nbytes > _PIECE_BYTES


def pieces(array: StoredArray) -> Iterator[tuple[int, int]]:
    """Return the first row of each piece of an array, and the row after its last."""
    rows = array.shape[0]
    step = max(1, _PIECE_BYTES * rows // array.spec.nbytes)
    return ((start, min(start + step, rows)) for start in range(0, rows, step))


def read_arrays(store: Store, arrays: Sequence[StoredArray]) -> list[Array]:
    """Return the values of arrays."""
    whole = [array.key for array in arrays if not comes_in_pieces(array)]
    found = dict(zip(whole, store.read(whole), strict=True)) if whole else {}
    return [found[array.key] if array.key in found else _in_pieces(store, array) for array in arrays]


def assign_arrays(store: Store, values: Sequence[tuple[StoredArray, Array]]) -> None:
    """Set arrays to values."""
    if whole := {array.key: value for array, value in values if not comes_in_pieces(array)}:
        store.assign(whole)
    for array, value in values:
        if comes_in_pieces(array):
            for start, stop in pieces(array):
                store.assign_rows(array.key, start, value[start:stop])


def require_room(name: str, nbytes: int) -> None:
    """Raise ParameterServerError if this process cannot hold a variable."""
    if nbytes > (limit := memory_bytes()):
        raise ParameterServerError(
            f"The variable {name} takes {nbytes / 1e9:.1f} GB, and this task has {limit / 1e9:.1f} GB of "
            "memory. Read the rows that you need, by a function that looks them up."
        )


def _in_pieces(store: Store, array: StoredArray) -> Array:
    made = np.empty(array.shape, dtype_named(array.dtype))
    for start, stop in pieces(array):
        made[start:stop] = store.read_rows(array.key, start, stop - start)
    return made
