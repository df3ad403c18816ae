"""NumPy's random functions, drawing from the generators of ``tf.random``.

They draw new numbers in every call, also of a compiled function, and `seed` makes them repeatable.
Without JAX's 64-bit types numbers have 32 bits.

Source: tensorflow/python/ops/numpy_ops/np_random.py, and np_config.py.
"""

from typing import Any

import jax
import numpy as np

from muster_tensorflow.library.ops._arrays import Array, DTypeLike
from muster_tensorflow.library.ops.random import _generators, _random

Size = Any


def enable_numpy_behavior(prefer_float32: bool = False, dtype_conversion_mode: str = "legacy") -> None:
    """Do nothing: arrays behave as NumPy's from the start."""


def seed(s: int) -> None:
    """Make the numbers that follow repeatable; those of ``tf.random``, too."""
    _generators.set_seed(s)


def randn(*args: int) -> Array:
    """Draw numbers of the standard normal distribution; `args` are the sizes of the result."""
    return standard_normal(args)


def standard_normal(size: Size = None) -> Array:
    """Draw numbers of the standard normal distribution, of the shape `size`; None is one number."""
    return _random.normal(_shape(size), dtype=_dtype(np.float64))


def rand(*size: int) -> Array:
    """Draw numbers from 0 up to, but without, 1; `size` are the sizes of the result."""
    return uniform(size=size)


def random(size: Size = None) -> Array:
    """Draw numbers from 0 up to, but without, 1, of the shape `size`; None is one number."""
    return uniform(size=size)


def uniform(low: Any = 0.0, high: Any = 1.0, size: Size = None) -> Array:
    """Draw numbers from `low` up to, but without, `high`.

    Args:
        low: The lower bound, or an array of bounds.
        high: The upper bound, or an array of bounds.
        size: The shape of the result; None is that of the bounds.
    """
    shape = np.broadcast_shapes(np.shape(low), np.shape(high)) if size is None else size
    return _random.uniform(_shape(shape), low, high, dtype=_dtype(np.float64))


def randint(low: int, high: int | None = None, size: Size = None, dtype: DTypeLike = np.int64) -> Array:
    """Draw integers from `low` up to, but without, `high`.

    Args:
        low: The lower bound; without `high` the upper one, and the lower is 0.
        high: The upper bound.
        size: The shape of the result; None is one number.
        dtype: The dtype of the result.
    """
    low, high = (0, low) if high is None else (low, high)
    return _random.uniform(_shape(size), low, high, dtype=_dtype(dtype))


def poisson(lam: Any = 1.0, size: Size = None) -> Array:
    """Draw integers of the Poisson distribution of the rate `lam`.

    Args:
        lam: The rate, or an array of rates.
        size: The shape of the result; None is that of the rates.
    """
    if size is None:
        return _random.poisson((), lam, dtype=_dtype(np.int64))
    return _random.poisson((), np.broadcast_to(lam, _shape(size)), dtype=_dtype(np.int64))


def _shape(size: Size) -> tuple[int, ...]:
    if size is None:
        return ()
    return (int(size),) if np.ndim(size) == 0 else tuple(map(int, size))


def _dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Return a dtype, or that which JAX has for it."""
    found: np.dtype[Any] = jax.dtypes.canonicalize_dtype(np.dtype(dtype))
    return found
