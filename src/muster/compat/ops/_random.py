"""``tf.random``: new numbers in every call, also of a compiled function."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy as np

from muster._errors import TraceError
from muster._keras import keras
from muster.compat.ops._arrays import Array, ArrayLike, DTypeLike, as_array, is_traced
from muster.distribute import Strategy, get_strategy
from muster.program.trace import FunctionScope
from muster.program.variables import current_scope

# The generators of each strategy's functions, made once, outside of all functions.
_GENERATORS: "WeakKeyDictionary[Strategy, keras.random.SeedGenerator]" = WeakKeyDictionary()

set_seed: Callable[[int], None] = keras.utils.set_random_seed


def uniform(
    shape: Iterable[int],
    minval: float | Array = 0,
    maxval: float | Array | None = None,
    dtype: DTypeLike = np.float32,
    seed: None = None,
    name: str | None = None,
) -> Array:
    """Draw numbers uniformly from ``minval`` up to, but without, ``maxval``.

    In a ``tf.function`` each replica draws different numbers, and new ones in every call. Outside of one,
    NumPy draws them. ``tf.random.set_seed`` makes them repeatable.

    Args:
        shape: The shape of the result.
        minval: The lower bound.
        maxval: The upper bound, which is not drawn; None is 1. Integers need one.
        dtype: The dtype of the result.
        seed: Only None.
        name: Unused.

    Raises:
        ValueError: There is a seed, or there are integers without ``maxval``.
        TraceError: The call is in a step of an Estimator or of ``fit``.

    Source: tensorflow/python/ops/random_ops.py, ``random_uniform``.
    """
    kind: Any = np.dtype(dtype)
    integers = kind.kind in "iu"
    if maxval is None:
        if integers:
            raise ValueError("tf.random.uniform of integers needs maxval, the bound that they stay below.")
        maxval = 1
    bounds: tuple[Any, Any] = (minval, maxval)
    generator = _generator("uniform", seed)
    if generator is not None:
        draw = keras.random.randint if integers else keras.random.uniform
        drawn: jax.Array = draw(tuple(shape), *bounds, dtype=str(kind), seed=generator)
        return drawn
    if integers:
        return np.random.randint(*bounds, tuple(shape), dtype=kind)
    return np.asarray(np.random.uniform(*bounds, tuple(shape))).astype(kind)


def normal(
    shape: Iterable[int],
    mean: float | Array = 0.0,
    stddev: float | Array = 1.0,
    dtype: DTypeLike = np.float32,
    seed: None = None,
    name: str | None = None,
) -> Array:
    """Draw numbers from a normal distribution, in the way of `uniform`.

    Args:
        shape: The shape of the result.
        mean: The mean of the distribution.
        stddev: Its standard deviation.
        dtype: The dtype of the result.
        seed: Only None.
        name: Unused.

    Raises:
        ValueError: There is a seed.
        TraceError: The call is in a step of an Estimator or of ``fit``.

    Source: tensorflow/python/ops/random_ops.py, ``random_normal``.
    """
    generator = _generator("normal", seed)
    if generator is not None:
        numbers: jax.Array = keras.random.normal(tuple(shape), dtype=str(np.dtype(dtype)), seed=generator)
        return numbers * stddev + mean
    return np.asarray(np.random.normal(mean, stddev, tuple(shape))).astype(dtype)


def truncated_normal(
    shape: Iterable[int],
    mean: float | Array = 0.0,
    stddev: float | Array = 1.0,
    dtype: DTypeLike = np.float32,
    seed: None = None,
    name: str | None = None,
) -> Array:
    """Draw numbers from a normal distribution within two standard deviations; arguments as for `normal`."""
    sizes = tuple(shape)
    generator = _generator("truncated_normal", seed)
    if generator is not None:
        numbers: jax.Array = keras.random.truncated_normal(sizes, dtype=str(np.dtype(dtype)), seed=generator)
        return numbers * stddev + mean
    drawn = np.random.normal(size=sizes)
    while (outside := np.abs(drawn) > 2).any():
        drawn = np.where(outside, np.random.normal(size=sizes), drawn)
    return np.asarray(drawn * stddev + mean).astype(dtype)


def shuffle(value: ArrayLike, seed: None = None, name: str | None = None) -> Array:
    """Shuffle the values along the first axis, in the way of `uniform`.

    Raises:
        ValueError: There is a seed.
        TraceError: The call is in a step of an Estimator or of ``fit``.
    """
    generator, values = _generator("shuffle", seed), as_array(value)
    if generator is not None:
        shuffled: jax.Array = keras.random.shuffle(values, seed=generator)
        return shuffled
    return values[np.random.permutation(len(values))]


def _generator(function: str, seed: None) -> keras.random.SeedGenerator | None:
    """Return the generator of a traced function; None outside of one."""
    if seed is not None:
        raise ValueError(
            f"tf.random.{function} takes no seed, got {seed!r}: call tf.random.set_seed once, or use "
            "keras.random with a keras.random.SeedGenerator."
        )
    if isinstance(current_scope(), FunctionScope):
        strategy = get_strategy()
        if strategy not in _GENERATORS:
            with ThreadPoolExecutor(1) as thread:  # where nothing is being traced
                _GENERATORS[strategy] = thread.submit(_make_generator, strategy).result()
        return _GENERATORS[strategy]
    if current_scope() is not None or is_traced():
        raise TraceError(
            f"tf.random.{function} would draw the same numbers in every step of a compiled program. Use "
            "keras.random with a keras.random.SeedGenerator that a layer holds, whose state is saved."
        )
    return None


def _make_generator(strategy: Strategy) -> keras.random.SeedGenerator:
    with strategy.scope():
        return keras.random.SeedGenerator()
