"""Typed random keys, as `jax.random.key` makes them: they have a dtype that NumPy does not know."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def is_key(value: Any) -> bool:
    """Whether a value is one or more random keys."""
    return isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key)


def by_numbers(move: Callable[[Any], Any], array: Any) -> Any:
    """Apply a function to an array; random keys are converted to numbers for it, and back.

    Args:
        move: Copies an array, or concatenates arrays along an axis counted from the first.
        array: An array or random keys.
    """
    if not is_key(array):
        return move(array)
    return jax.random.wrap_key_data(move(jax.random.key_data(array)), impl=jax.random.key_impl(array))
