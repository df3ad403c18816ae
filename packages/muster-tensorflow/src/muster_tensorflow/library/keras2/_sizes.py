"""Let ``keras.ops`` take symbolic sizes, as in ``keras.ops.arange(keras.ops.shape(x)[0])``.

A size under compat is a `Dimension`, an int with TensorFlow 1's ``value``. Keras asks for the dtype of a
number's very type, and knows ``int`` alone.
"""

import functools
from collections.abc import Callable
from typing import Any

from muster import keras
from muster_tensorflow.library.ops.arrays._array_shape import Dimension
from muster_tensorflow.patches import change_item, wrap


def _of_python(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap ``_dtype_and_weaktype``: the dtype of a size gives way to others, as that of an int does."""

    @functools.wraps(original)
    def dtype_and_weaktype(value: Any) -> Any:
        return original(int if value is Dimension else value)

    return dtype_and_weaktype


def patch() -> None:
    """Let Keras' operations take sizes as ints."""
    dtypes = keras.src.backend.common.dtypes
    change_item(dtypes, "PYTHON_DTYPES_MAP", Dimension, dtypes.PYTHON_DTYPES_MAP[int])
    wrap(dtypes, "_dtype_and_weaktype", _of_python)
