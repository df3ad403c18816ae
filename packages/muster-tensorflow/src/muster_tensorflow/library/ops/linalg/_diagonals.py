"""Diagonals of matrices: to make, to read and to set one of them, or a band.

Source: tensorflow/python/ops/array_ops.py, ``matrix_diag``, ``matrix_diag_part`` and ``matrix_set_diag``.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from muster_tensorflow.library.ops._arrays import Array, ArrayLike, array_module, as_array
from muster_tensorflow.library.ops._operation import operation

_ALIGNMENTS = ("LEFT_LEFT", "LEFT_RIGHT", "RIGHT_LEFT", "RIGHT_RIGHT")
Diagonals = int | Sequence[int]


@operation
def diag(
    diagonal: ArrayLike,
    name: str = "diag",
    k: Diagonals = 0,
    num_rows: int = -1,
    num_cols: int = -1,
    padding_value: ArrayLike = 0,
    align: str = "RIGHT_LEFT",
) -> Array:
    """Make matrices of the values on one diagonal, or on several.

    Args:
        diagonal: Shape (…, length) for one diagonal, which makes matrices (…, rows, columns); for several
            (…, diagonals, length), the uppermost first.
        name: Unused.
        k: The number of the diagonal, from 0, the main one, upwards; or the lowest and the uppermost.
        num_rows: How many rows there are; -1 is as many as needed.
        num_cols: How many columns there are; -1 is as many as needed.
        padding_value: What is elsewhere.
        align: At which end the values of shorter diagonals are, above and below the main one.
    """
    values = as_array(diagonal)
    low, high = _bounds(k)
    if low == high and (isinstance(k, int) or values.ndim == 1 or values.shape[-2] != 1):
        values = values[..., None, :]
    length = values.shape[-1]
    least = length - min(high, 0), length + max(low, 0)
    if num_rows == -1 == num_cols:
        rows = columns = max(least)
    else:
        rows, columns = (
            needed if given == -1 else given
            for given, needed in zip((num_rows, num_cols), least, strict=True)
        )
    places, inside = _places(rows, columns, low, high, length, align)
    return _taken(values, places, inside, np.asarray(padding_value, values.dtype))


@operation
def diag_part(
    input: ArrayLike,
    name: str = "diag_part",
    k: Diagonals = 0,
    padding_value: ArrayLike = 0,
    align: str = "RIGHT_LEFT",
) -> Array:
    """Return one diagonal of matrices, or several; the arguments are those of `diag`."""
    value: Any = as_array(input)
    low, high = _bounds(k)
    rows, columns = value.shape[-2:]
    length = min(rows + min(high, 0), columns - max(low, 0))
    places, inside = _places(rows, columns, low, high, length, align)
    of = np.zeros((high - low + 1, length), int)
    there = np.zeros(of.shape, bool)
    of.ravel()[places[inside]] = np.arange(rows * columns).reshape(rows, columns)[inside]
    there.ravel()[places[inside]] = True
    found = _taken(value, of, there, np.asarray(padding_value, value.dtype))
    return found[..., 0, :] if low == high else found


@operation
def set_diag(
    input: ArrayLike,
    diagonal: ArrayLike,
    name: str = "set_diag",
    k: Diagonals = 0,
    align: str = "RIGHT_LEFT",
) -> Array:
    """Return matrices with other values on one diagonal, or on several; the arguments are those of `diag`."""
    value: Any = as_array(input)
    low, high = _bounds(k)
    values = as_array(diagonal)
    if low == high:
        values = values[..., None, :]
    rows, columns = value.shape[-2:]
    places, inside = _places(rows, columns, low, high, values.shape[-1], align)
    return _taken(values, places, inside, value)


def _bounds(k: Any) -> tuple[int, int]:
    """Return the lowest and the uppermost diagonal.

    Raises:
        ValueError: The first is above the second.
    """
    numbers = np.asarray(k).ravel().tolist()
    low, high = numbers[0], numbers[-1]
    if low > high:
        raise ValueError(f"k is the lowest and then the uppermost diagonal, got {k}.")
    return low, high


def _places(
    rows: int, columns: int, low: int, high: int, length: int, align: str
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return where in a flat array of diagonals each element of a matrix is, and whether it is on one."""
    if align not in _ALIGNMENTS:
        raise ValueError(f"align is one of {', '.join(_ALIGNMENTS)}, got {align!r}.")
    above, below = align.split("_")
    row, column = np.indices((rows, columns))
    number = column - row
    own = np.minimum(columns - np.maximum(number, 0), rows + np.minimum(number, 0))
    at_end = ((number >= 0) & (above == "RIGHT")) | ((number <= 0) & (below == "RIGHT"))
    at = np.minimum(row, column) + np.where(at_end, length - own, 0)
    inside = (number >= low) & (number <= high) & (at >= 0) & (at < length)
    return np.where(inside, (high - number) * length + at, 0), inside


def _taken(values: Any, places: Any, inside: Any, other: Any) -> Array:
    flat = values.reshape(*values.shape[:-2], -1)
    taken: Array = array_module(values, other).where(inside, flat[..., places], other)
    return taken
