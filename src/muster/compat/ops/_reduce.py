"""TensorFlow's operations that reduce axes. ``name`` is accepted everywhere and means nothing."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from muster.compat.ops._arrays import Array, ArrayLike, Axis, DTypeLike, array_module, as_array, as_axis
from muster.compat.ops._elementwise import cast


def _reduction(function: str) -> Callable[..., Array]:
    def operation(
        input_tensor: ArrayLike, axis: Axis = None, keepdims: bool = False, name: str | None = None
    ) -> Array:
        value = as_array(input_tensor)
        return getattr(array_module(value), function)(value, axis=as_axis(axis), keepdims=keepdims)

    operation.__name__ = f"reduce_{function}"
    operation.__doc__ = f"As ``numpy.{function}``, on NumPy and JAX arrays."
    return operation


reduce_all = _reduction("all")
reduce_any = _reduction("any")
reduce_max = _reduction("max")
reduce_min = _reduction("min")
reduce_std = _reduction("std")
reduce_variance = _reduction("var")


def _of_its_dtype(function: str) -> Callable[..., Array]:
    def operation(
        input_tensor: ArrayLike, axis: Axis = None, keepdims: bool = False, name: str | None = None
    ) -> Array:
        value = as_array(input_tensor)
        found = getattr(array_module(value), function)(value, axis=as_axis(axis), keepdims=keepdims)
        return cast(found, value.dtype)

    operation.__name__ = f"reduce_{function}"
    operation.__doc__ = f"As ``numpy.{function}``, but in the dtype of the input, integers too."
    return operation


reduce_mean = _of_its_dtype("mean")
reduce_prod = _of_its_dtype("prod")
reduce_sum = _of_its_dtype("sum")


def reduce_logsumexp(
    input_tensor: ArrayLike, axis: Axis = None, keepdims: bool = False, name: str | None = None
) -> Array:
    """``log(sum(exp(x)))`` without overflow."""
    return jax.nn.logsumexp(as_array(input_tensor), axis=as_axis(axis), keepdims=keepdims)


def _index_of(function: str) -> Callable[..., Array]:
    def operation(
        input: ArrayLike, axis: int | None = None, output_type: DTypeLike = np.int64, name: str | None = None
    ) -> Array:
        value = as_array(input)
        found = getattr(array_module(value), function)(value, axis=0 if axis is None else axis)
        return cast(found, output_type)

    operation.__name__ = function
    operation.__doc__ = f"As ``numpy.{function}``; the default axis is 0."
    return operation


argmax = _index_of("argmax")
argmin = _index_of("argmin")


def cumsum(x: ArrayLike, axis: int = 0, name: str | None = None) -> Array:
    """Running sums along an axis."""
    return array_module(x).cumsum(as_array(x), axis=axis)


def norm(tensor: ArrayLike, ord: Any = "euclidean", axis: Axis = None, name: str | None = None) -> Array:
    """A norm: of all values if ``axis`` is None.

    Args:
        tensor: values of any shape.
        ord: ``"euclidean"``, 1, 2 or infinity.
        axis: one axis, or None.
        name: unused.
    """
    value = as_array(tensor)
    flat = value.reshape(-1) if axis is None else value
    order = 2 if ord == "euclidean" else ord
    return array_module(value).linalg.norm(flat, ord=order, axis=0 if axis is None else as_axis(axis))
