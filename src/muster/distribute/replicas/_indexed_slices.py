"""Rows of an array, by their indices."""

from typing import NamedTuple

from muster._arrays import AnyArray


class IndexedSlices(NamedTuple):
    """Rows of an array, by their indices: what a variable's ``scatter_add`` adds, for example.

    Attributes:
        values: The rows, of shape (n, ...).
        indices: The place of each row in the array, of shape (n,).
        dense_shape: The array's shape, if it is known.

    Source: tensorflow/python/framework/indexed_slices.py, ``IndexedSlices``.
    """

    values: AnyArray
    indices: AnyArray
    dense_shape: tuple[int, ...] | None = None
