"""Whole numbers that JAX would cut off: without 64-bit types it keeps the last 32 bits, and says nothing."""

from typing import Any

import numpy as np


def first_beyond(values: Any, limits: "np.iinfo[Any]") -> Any:
    """The first of whole numbers that do not fit, as a NumPy scalar, or None if all do.

    Args:
        values: an array, or what becomes one.
        limits: of the type that they are to fit into.
    """
    array = np.asarray(values)
    if not array.size or (array.min() >= limits.min and array.max() <= limits.max):
        return None
    return array[(array < limits.min) | (array > limits.max)].flat[0]
