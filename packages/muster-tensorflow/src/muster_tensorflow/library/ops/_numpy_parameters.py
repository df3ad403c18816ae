"""Adapt ``jax.numpy`` to ``tf.experimental.numpy``: lists as arrays, and TensorFlow's parameter names.

Source: tensorflow/python/ops/numpy_ops/np_array_ops.py and np_math_ops.py.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

_OF_TWO = (
    "add bitwise_and bitwise_or bitwise_xor equal float_power greater greater_equal less less_equal "
    "logaddexp logaddexp2 logical_and logical_or logical_xor matmul maximum minimum multiply nextafter "
    "not_equal subtract"
)
_PARAMETERS = {
    **dict.fromkeys(_OF_TWO.split(), ("x1", "x2")),
    "array": ("val",),
    "clip": ("a", "a_min", "a_max"),
    "concatenate": ("arys",),
    "empty_like": ("a",),
    "isscalar": ("num",),
    "negative": ("x",),
    "promote_types": ("type1", "type2"),
    "reshape": ("a", "newshape"),
    "sign": ("x",),
    "size": ("x",),
    "tile": ("a",),
}


def as_in_tensorflow(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of ``jax.numpy`` take lists as arrays, and TensorFlow's names of parameters."""
    names = _PARAMETERS.get(function.__name__, ())

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        by_place = (*args, *(kwargs.pop(name) for name in names[len(args) :] if name in kwargs))
        try:
            return function(*by_place, **kwargs)
        except TypeError:
            arrays = [_as_arrays(each) if isinstance(each, list | tuple) else each for each in by_place]
            if all(new is old for new, old in zip(arrays, by_place, strict=True)):
                raise
        return function(*arrays, **kwargs)

    return call


def _as_arrays(values: Any) -> Any:
    """Return the array of nested lists, or the list of arrays of different shapes."""
    try:
        return jnp.asarray(values)
    except (TypeError, ValueError):
        return [jnp.asarray(each) for each in values]
