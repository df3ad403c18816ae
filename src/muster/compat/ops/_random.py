"""``tf.random``: other numbers in every call, of a compiled function as well."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from muster._errors import TraceError
from muster._keras import keras
from muster.compat.ops._arrays import Array, DTypeLike, is_traced
from muster.distribute import Strategy, get_strategy
from muster.program import FunctionScope, current_scope

# What the functions of a strategy's programs draw with. Made once, outside of all of them.
_GENERATORS: "WeakKeyDictionary[Strategy, Any]" = WeakKeyDictionary()

set_seed: Callable[[int], None] = keras.utils.set_random_seed


def uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: DTypeLike = np.float32,
    seed: None = None,
    name: str | None = None,
) -> Array:
    """Numbers that are equally likely everywhere from ``minval`` up to ``maxval``, which is left out.

    In a ``tf.function`` each replica has numbers of its own, and others in every call. Outside, they are
    NumPy's. ``tf.random.set_seed`` makes them repeatable.

    Args:
        shape: of the result.
        minval: the smallest one.
        maxval: what they stay below; 1 by default, and needed for integers.
        dtype: of the result.
        seed: only None.
        name: unused.

    Raises:
        ValueError: for a seed, or integers without ``maxval``.
        TraceError: in a step of an Estimator or of ``fit``.

    Source: tensorflow/python/ops/random_ops.py, ``random_uniform``.
    """
    kind: Any = np.dtype(dtype)
    if maxval is None:
        if kind.kind in "iu":
            raise ValueError("tf.random.uniform of integers needs maxval, which they stay below.")
        maxval = 1
    generator = _generator("uniform", seed)
    if generator is not None:
        draw = keras.random.randint if kind.kind in "iu" else keras.random.uniform
        return draw(tuple(shape), minval, maxval, dtype=str(kind), seed=generator)
    if kind.kind in "iu":
        return np.random.randint(minval, maxval, tuple(shape), dtype=kind)
    return np.asarray(np.random.uniform(minval, maxval, tuple(shape))).astype(kind)


def normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: DTypeLike = np.float32,
    seed: None = None,
    name: str | None = None,
) -> Array:
    """Numbers of a normal distribution, drawn as `uniform` draws.

    Args:
        shape: of the result.
        mean: of the distribution.
        stddev: likewise.
        dtype: of the result.
        seed: only None.
        name: unused.

    Raises:
        ValueError: for a seed.
        TraceError: in a step of an Estimator or of ``fit``.

    Source: tensorflow/python/ops/random_ops.py, ``random_normal``.
    """
    generator = _generator("normal", seed)
    if generator is not None:
        numbers = keras.random.normal(tuple(shape), dtype=str(np.dtype(dtype)), seed=generator)
        return numbers * stddev + mean
    return np.asarray(np.random.normal(mean, stddev, tuple(shape))).astype(dtype)


def _generator(function: str, seed: None) -> Any:
    """What a traced function draws with; None outside of one."""
    if seed is not None:
        raise ValueError(
            f"tf.random.{function} takes no seed, got {seed!r}: call tf.random.set_seed once, or use "
            "keras.random with a keras.random.SeedGenerator."
        )
    if isinstance(current_scope(), FunctionScope):
        strategy = get_strategy()
        if strategy not in _GENERATORS:
            with ThreadPoolExecutor(1) as another:  # nothing is being traced in another thread
                _GENERATORS[strategy] = another.submit(_made_for, strategy).result()
        return _GENERATORS[strategy]
    if current_scope() is not None or is_traced():
        raise TraceError(
            f"tf.random.{function} would draw the same numbers in every step of a compiled program. Use "
            "keras.random with a keras.random.SeedGenerator that a layer holds, whose state is saved."
        )
    return None


def _made_for(strategy: Strategy) -> Any:
    with strategy.scope():
        return keras.random.SeedGenerator()
