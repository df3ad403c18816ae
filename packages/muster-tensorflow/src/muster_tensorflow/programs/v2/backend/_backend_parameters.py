"""Functions of Keras 2's ``backend`` whose parameters have other names, or other defaults, in ``keras.ops``.

Source: tensorflow/python/keras/backend.py.
"""

from typing import Any

from muster import keras
from muster_tensorflow.library.ops._parameters import takes
from muster_tensorflow.library.ops.arrays import _shape
from muster_tensorflow.library.ops.math import _math
from muster_tensorflow.programs.v2.keras import _keras_parameters

_ops = keras.ops

clip = takes(_ops.clip, "x min_value=x_min max_value=x_max")
dot = takes(_ops.dot, "x=x1 y=x2")
equal = takes(_ops.equal, "x=x1 y=x2")
eye = takes(_ops.eye, "size=N dtype name=")
greater = takes(_ops.greater, "x=x1 y=x2")
greater_equal = takes(_ops.greater_equal, "x=x1 y=x2")
less = takes(_ops.less, "x=x1 y=x2")
less_equal = takes(_ops.less_equal, "x=x1 y=x2")
maximum = takes(_ops.maximum, "x=x1 y=x2")
minimum = takes(_ops.minimum, "x=x1 y=x2")
not_equal = takes(_ops.not_equal, "x=x1 y=x2")
one_hot = takes(_ops.one_hot, "indices=x num_classes")
ones = takes(_ops.ones, "shape dtype name=")
ones_like = takes(_math.ones_like, "x=input dtype name")
relu = takes(keras.activations.relu, "x alpha=negative_slope max_value threshold")
reshape = takes(_ops.reshape, "x shape=newshape")
shape = takes(_shape.shape, "x=input")
stop_gradient = takes(_ops.stop_gradient, "variables=variable")
tile = takes(_ops.tile, "x n=repeats")
zeros = takes(_ops.zeros, "shape dtype name=")
zeros_like = takes(_math.zeros_like, "x=input dtype name")
sparse_categorical_crossentropy = takes(
    _keras_parameters.sparse_categorical_crossentropy,
    "target=y_true output=y_pred from_logits axis ignore_class",
)


def arange(start: float, stop: float | None = None, step: float = 1, dtype: str = "int32") -> Any:
    """Return numbers from ``start`` on, or from 0 up to it alone; float32 if they are fractions."""
    first, end = (0, start) if stop is None else (start, stop)
    numbers = _shape.range(first, end, step)
    return numbers if dtype == "int32" else keras.ops.cast(numbers, dtype)


def placeholder(
    shape: Any = None,
    ndim: int | None = None,
    dtype: Any = None,
    sparse: bool = False,
    name: str | None = None,
    ragged: bool = False,
) -> Any:
    """Make an input of a functional model, or of ``function``.

    Args:
        shape: The shape with the batch's axis; None takes ``ndim`` unknown sizes.
        ndim: The number of axes.
        dtype: The dtype; None is ``floatx()``.
        sparse: Whether it is for sparse tensors.
        name: The name of the input.
        ragged: Whether it is for ragged tensors.
    """
    sizes = (None,) * (ndim or 0) if shape is None else tuple(shape)
    return keras.Input(batch_shape=sizes, dtype=dtype, sparse=sparse, name=name, ragged=ragged or None)


def cumprod(x: Any, axis: int = 0) -> Any:
    """Return the products of the values up to each place along an axis."""
    return keras.ops.cumprod(x, axis)


def cumsum(x: Any, axis: int = 0) -> Any:
    """Return the sums of the values up to each place along an axis."""
    return keras.ops.cumsum(x, axis)


def hard_sigmoid(x: Any) -> Any:
    """Return ``0.2 * x + 0.5``, cut at 0 and 1, as Keras 2 does; Keras 3 has a slope of one sixth."""
    return keras.ops.clip(0.2 * x + 0.5, 0.0, 1.0)
