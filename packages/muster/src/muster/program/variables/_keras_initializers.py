"""Let Keras' initializers leave to NumPy what would be a program to compile for each shape.

On CPUs, XLA takes half a second to two for each shape to compile the drawing of random numbers: nearly all of
it is for Threefry, which makes random bits of a key. Here NumPy makes these bits, and JAX' own functions make
numbers of them, in programs that compile in a tenth of the time. All bits of the numbers are the same. Zeros
and ones need no program.

Source: jax/_src/random/threefry2x32.py, ``threefry_random_bits`` with ``jax_threefry_partitionable``; Salmon
et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011, for the rounds.
"""

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, NoReturn

import jax
import numpy as np
from jax.extend import core as jex
from jax.extend.random import define_prng_impl

from muster._keras import keras
from muster.keras_hooks import replace, wrap
from muster.program.variables.keras_internals import backend

# NumPy draws a million in 40 ms: the bits of so many in less time than a program for them compiles.
_FEW = 2**22

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_IN_CACHE = 8192  # numbers that are computed together

FILLED_WITH = {keras.initializers.Zeros: 0, keras.initializers.Ones: 1}
"""The number with which NumPy fills an array: JAX would trace and compile a program for each shape."""

_random_initializers = keras.src.initializers.random_initializers
_random = _random_initializers.random


def random_bits(key: Any, count: int) -> np.ndarray[Any, Any]:
    """Return the bits that ``jax.random.bits`` draws from a key of Threefry: uint32 of shape (count,).

    Args:
        key: Two numbers, uint32 of shape (2,).
        count: How many to draw, fewer than 2**32.
    """
    first, second = map(int, key)
    keys = [np.uint32(each) for each in (first, second, first ^ second ^ _PARITY)]
    drawn = np.empty(count, np.uint32)
    shifted = np.empty(_IN_CACHE, np.uint32)
    for start in range(0, count, _IN_CACHE):
        left = drawn[start : start + _IN_CACHE]
        right = np.arange(start, start + len(left), dtype=np.uint32)
        high_bits = shifted[: len(left)]
        left[:] = keys[0]  # a number's place is below 2**32, so that the upper half of it is zero
        right += keys[1]
        for step in range(5):
            for rotation in _ROTATIONS[step % 2]:
                left += right
                np.left_shift(right, np.uint32(rotation), out=high_bits)
                right >>= np.uint32(32 - rotation)
                right |= high_bits
                right ^= left
            left += keys[(step + 1) % 3]
            right += np.uint32((int(keys[(step + 2) % 3]) + step + 1) % 2**32)
        left ^= right
    return drawn


def _refuse(*_: Any) -> NoReturn:
    raise NotImplementedError("These bits are for a draw of an initializer, and there are no more.")


@functools.lru_cache(maxsize=256)
def _drawn_before(shape: tuple[int, ...]) -> Any:
    """Return a kind of keys for JAX that are random bits themselves, of a shape."""
    return define_prng_impl(
        key_shape=shape,
        seed=_refuse,
        split=_refuse,
        random_bits=lambda key, bit_width, shape: key,
        fold_in=_refuse,
        name="drawn_before",
        tag="drawn",
    )


def _key_of_bits(key: Any, shape: tuple[int, ...]) -> Any:
    """Return a key that stands for the bits of a shape which are drawn from a key; or the key."""
    config: Any = jax.config
    if (
        not (shape and 0 < math.prod(shape) <= _FEW)
        or _is_traced()
        or (key.dtype, key.shape, key.committed) != (np.uint32, (2,), False)
        or config.jax_default_prng_impl != "threefry2x32"
        or not config.jax_threefry_partitionable
        or {each.platform for each in key.devices()} != {"cpu"}
    ):
        return key
    bits: Any = random_bits(np.asarray(key), math.prod(shape)).reshape(shape)
    return jax.random.wrap_key_data(bits, impl=_drawn_before(shape))


def _is_traced() -> bool:
    """Return whether JAX traces operations in this thread, for a program or a tape."""
    with jex.take_current_trace() as current:
        pass
    return type(current).__name__ != "EvalTrace"


def _draws_bits_first(name: str) -> Callable[..., jax.Array]:
    """Return a function of ``keras.random`` that takes its bits from NumPy if there are few."""
    signature = inspect.signature(getattr(_random, name))

    def draw(*args: Any, **named: Any) -> jax.Array:
        given = signature.bind(*args, **named)
        given.apply_defaults()
        asked = given.arguments
        if keras.backend.standardize_dtype(asked["dtype"]) == "float32":
            seed = asked["seed"]
            key = seed if isinstance(seed, jax.Array) else backend.jax.random.draw_seed(seed)
            asked["seed"] = _key_of_bits(key, tuple(asked["shape"]))
        drawn: jax.Array = getattr(_random, name)(*given.args, **given.kwargs)
        return drawn

    return draw


class _Random:
    """``keras.random`` for Keras' initializers."""

    normal = staticmethod(_draws_bits_first("normal"))
    truncated_normal = staticmethod(_draws_bits_first("truncated_normal"))
    uniform = staticmethod(_draws_bits_first("uniform"))

    def __getattr__(self, name: str) -> Any:
        return getattr(_random, name)


def _fills_on_host(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def fill(self: Any, shape: Any, dtype: Any = None) -> Any:
        number = FILLED_WITH.get(type(self))
        is_usual = number is not None and keras.backend.standardize_dtype(dtype) == "float32"
        if not is_usual or math.prod(shape) > _FEW or _is_traced():
            return original(self, shape, dtype=dtype)
        return jax.device_put(np.full(shape, number, np.float32), may_alias=False)

    return fill


replace(_random_initializers, "random", _Random())
for _class in FILLED_WITH:
    wrap(_class, "__call__", _fills_on_host)
