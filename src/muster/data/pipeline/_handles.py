"""The handles that streams yield, and the elements that nodes load for them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from muster.data.pipeline._spec import stack
from muster.data.pipeline._structure import flatten, rebuild

Handles = np.ndarray[Any, Any] | list[Any]
"""Row numbers, int64 of shape (n,) or (n, width), or a list of opaque handles."""


class Stacked(NamedTuple):
    """Elements as one structure of arrays of shape (size, ...)."""

    columns: Any
    size: int


Loaded = Stacked | list[Any]
"""Elements stacked, or in a list, as the node computes them."""


def unstacked(loaded: Loaded) -> list[Any]:
    """Return elements as a list."""
    if isinstance(loaded, list):
        return loaded
    arrays = flatten(loaded.columns)
    return [rebuild(loaded.columns, [array[i] for array in arrays]) for i in range(loaded.size)]


def stacked(loaded: Loaded) -> Any:
    """Return elements as one structure of arrays.

    Raises:
        DatasetError: They differ in structure, shape or type.
    """
    return loaded.columns if isinstance(loaded, Stacked) else stack(loaded)


def join(parts: Sequence[Handles]) -> Handles:
    """Concatenate handles of one node."""
    filled = [part for part in parts if len(part)]
    if len(filled) <= 1:
        return filled[0] if filled else []
    if isinstance(filled[0], np.ndarray):
        return np.concatenate(filled)
    return [handle for part in filled for handle in part]
