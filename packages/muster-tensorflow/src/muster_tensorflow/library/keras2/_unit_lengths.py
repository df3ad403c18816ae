"""Scale vectors to length 1 as Keras 2 does: those of zeros have a gradient, which Keras 3 has not on JAX.

Keras 3 takes the smaller of two numbers, of which one is infinite for zeros and has no derivative. So cosine
similarities with zeros, such as those of padding whose weight is zero, end a training.

Source: tensorflow/python/ops/nn_impl.py, ``l2_normalize``, which Keras 2's ``UnitNormalization`` and
``cosine_similarity`` call.
"""

from collections.abc import Callable
from typing import Any

from muster import keras
from muster_tensorflow.patches import wrap

_LEAST = 1e-12  # of a sum of squares


def _with_gradient(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap what ``keras.ops.normalize`` calls."""

    def normalize(x: Any, axis: Any = -1, order: int = 2, epsilon: float | None = None) -> Any:
        value = keras.ops.convert_to_tensor(x)
        if order != 2 or not value.shape or axis is None:
            return original(x, axis=axis, order=order, epsilon=epsilon)
        squares = keras.ops.sum(keras.ops.square(value), axis=axis, keepdims=True)
        return value * keras.ops.rsqrt(keras.ops.maximum(squares, _LEAST))

    return normalize


def patch() -> None:
    """Let Keras scale vectors of zeros as TensorFlow does."""
    wrap(keras.src.ops.nn, "_normalize", _with_gradient)
