"""Find integers that JAX would truncate: without 64-bit types it silently keeps their low 32 bits."""

from typing import Any

import numpy as np


def first_out_of_range(values: Any, limits: "np.iinfo[Any]") -> Any:
    """Return the first integer that is out of range, as a NumPy scalar, or None.

    Args:
        values: An array of integers, or anything that becomes one.
        limits: The range of the type that they must fit into.
    """
    array = np.asarray(values)
    if not array.size or (array.min() >= limits.min and array.max() <= limits.max):
        return None
    return array[(array < limits.min) | (array > limits.max)].flat[0]
