"""TensorFlow's operations that reduce axes."""

from collections.abc import Callable
from typing import Literal

import jax
import numpy as np

from muster.compat.ops._arrays import (
    Array,
    ArrayLike,
    Axis,
    DTypeLike,
    apply,
    array_module,
    as_array,
    as_axis,
)
from muster.compat.ops._elementwise import cast


def _reduction(function: str, keep_dtype: bool = False) -> Callable[..., Array]:
    def operation(
        input_tensor: ArrayLike, axis: Axis = None, keepdims: bool = False, name: str | None = None
    ) -> Array:
        value = as_array(input_tensor)
        reduced = apply(function, value, axis=as_axis(axis), keepdims=keepdims)
        return cast(reduced, value.dtype) if keep_dtype else reduced

    operation.__name__ = f"reduce_{function}"
    same_dtype = ", but in the dtype of the input, integers too" if keep_dtype else ""
    operation.__doc__ = f"Do as ``numpy.{function}``, on NumPy and JAX arrays{same_dtype}."
    return operation


reduce_all = _reduction("all")
reduce_any = _reduction("any")
reduce_max = _reduction("max")
reduce_min = _reduction("min")
reduce_std = _reduction("std")
reduce_variance = _reduction("var")
reduce_mean = _reduction("mean", keep_dtype=True)
reduce_prod = _reduction("prod", keep_dtype=True)
reduce_sum = _reduction("sum", keep_dtype=True)


def reduce_logsumexp(
    input_tensor: ArrayLike, axis: Axis = None, keepdims: bool = False, name: str | None = None
) -> jax.Array:
    """Return ``log(sum(exp(x)))`` without overflow."""
    return jax.nn.logsumexp(as_array(input_tensor), axis=as_axis(axis), keepdims=keepdims)


def _index_of(function: str) -> Callable[..., Array]:
    def operation(
        input: ArrayLike, axis: int | None = None, output_type: DTypeLike = np.int64, name: str | None = None
    ) -> Array:
        return cast(apply(function, as_array(input), axis=0 if axis is None else axis), output_type)

    operation.__name__ = function
    operation.__doc__ = f"Do as ``numpy.{function}``; the default axis is 0."
    return operation


argmax = _index_of("argmax")
argmin = _index_of("argmin")


def cumsum(x: ArrayLike, axis: int = 0, name: str | None = None) -> Array:
    """Return the running sums along an axis."""
    return apply("cumsum", as_array(x), axis=axis)


def norm(
    tensor: ArrayLike,
    ord: float | Literal["euclidean"] = "euclidean",
    axis: Axis = None,
    name: str | None = None,
) -> Array:
    """Return a norm along an axis, or of all values.

    Args:
        tensor: Values of any shape.
        ord: ``"euclidean"``, 1, 2 or infinity.
        axis: The axis; None for all values.
        name: Unused.
    """
    value = as_array(tensor)
    order = 2 if ord == "euclidean" else ord
    flat, along = (value.reshape(-1), 0) if axis is None else (value, as_axis(axis))
    found: Array = array_module(value).linalg.norm(flat, ord=order, axis=along)
    return found
