"""Let ``keras.ops.argmax`` and ``argmin``, also in metrics, skip NaN as TensorFlow's do.

For JAX and NumPy, NaN is greater and less than all numbers.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from muster import keras
from muster_tensorflow.library.ops.math._math import without_nan
from muster_tensorflow.patches import change


def _passing_over(original: Callable[..., Any], value: float) -> Callable[..., Any]:
    """Wrap ``argmax`` or ``argmin`` of Keras' backend."""

    @functools.wraps(original)
    def index(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
        return original(without_nan(keras.src.backend.convert_to_tensor(x), value), axis, keepdims)

    return index


def patch() -> None:
    """Let Keras find no NaN."""
    module = keras.src.backend.numpy
    change(module, "argmax", _passing_over(module.argmax, -np.inf))
    change(module, "argmin", _passing_over(module.argmin, np.inf))
