"""Arrays on parameter servers, read and assigned whole: large tables in pieces, which fit beside them."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from muster._arrays import dtype_named
from muster._errors import ParameterServerError
from muster.ps import Servers, memory_bytes
from muster.ps.contents import StoredArray

Array = np.ndarray[Any, Any]

# How many bytes of a table go at once.
_PIECE_BYTES = 32 << 20


def comes_in_pieces(array: StoredArray) -> bool:
    """Return whether an array is so large that its rows go a piece at a time: one that is held by rows."""
    return array.by_rows and array.spec.nbytes > _PIECE_BYTES


def pieces(array: StoredArray) -> Iterator[tuple[int, int]]:
    """Return the first row of each piece of an array, and the row after its last."""
    rows = array.shape[0]
    step = max(1, _PIECE_BYTES * rows // array.spec.nbytes)
    return ((start, min(start + step, rows)) for start in range(0, rows, step))


def read_arrays(store: Servers, arrays: Sequence[StoredArray]) -> list[Array]:
    """Return the values of arrays."""
    whole = [array.key for array in arrays if not comes_in_pieces(array)]
    found = dict(zip(whole, store.read(whole), strict=True)) if whole else {}
    return [found[array.key] if array.key in found else _in_pieces(store, array) for array in arrays]


def assign_arrays(store: Servers, values: Sequence[tuple[StoredArray, Array]]) -> None:
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


def _in_pieces(store: Servers, array: StoredArray) -> Array:
    made = np.empty(array.shape, dtype_named(array.dtype))
    for start, stop in pieces(array):
        made[start:stop] = store.read_rows(array.key, start, stop - start)
    return made
