"""Typed random keys, of `jax.random.key`: JAX has a type of its own for them, NumPy has not."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def is_key(value: Any) -> bool:
    """Whether a value is one or more random keys."""
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def by_numbers(move: Callable[[Any], Any], array: Any) -> Any:
    """Move an array, or the numbers of random keys, which get their type back.

    Args:
        move: copies arrays, or joins them along an axis counted from the first.
        array: what to move.
    """
    if not is_key(array):
        return move(array)
    return jax.random.wrap_key_data(move(jax.random.key_data(array)), impl=jax.random.key_impl(array))
