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
    least, most = limits.min, limits.max
    if not array.size or (array.min() >= least and array.max() <= most):
        return None
    return array[(array < least) | (array > most)].flat[0]
