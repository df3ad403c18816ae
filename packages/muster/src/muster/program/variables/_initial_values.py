"""Compute initial values, with few programs that compile quickly: each runs once."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex

from muster._keras import keras

# XLA compiles the drawing of random numbers in half a second with optimizations, in a tenth without. Drawing
# more numbers than this takes longer than that.
_FEW = 2**20
_QUICKLY = {"xla_backend_optimization_level": 0}
CONSTANTS = (keras.initializers.Zeros, keras.initializers.Ones, keras.initializers.Constant)
"""Initializers whose elements are all the same, if their value is a number."""
# Filled on the host: on the device, each shape would be a program to trace and compile.
_FILLED_WITH = {keras.initializers.Zeros: 0, keras.initializers.Ones: 1}


def initial_value(initializer: Any, shape: tuple[int, ...], dtype: str) -> jax.Array:
    """Compute a variable's initial value, in a new buffer, even while something is traced.

    Args:
        initializer: A callable (shape, dtype) -> array, or an array, which is returned unchanged.
        shape: The variable's shape, global.
        dtype: The name of its dtype.
    """
    if not callable(initializer):
        return initializer  # type: ignore[no-any-return]
    with jax.core.eval_context():
        few = math.prod(shape) <= _FEW
        if few and type(initializer) in _FILLED_WITH:
            return donatable_copy(np.full(shape, _FILLED_WITH[type(initializer)], dtype), dtype)
        if not few or not only_draws(initializer):
            return donatable_copy(initializer(shape, dtype=dtype), dtype)
        closed = jax.make_jaxpr(lambda: jnp.array(initializer(shape, dtype=dtype), dtype=dtype))()
        settings = {name: value for name, value in initializer.get_config().items() if name != "seed"}
        draw = _Draw(f"{type(initializer).__name__}{settings}", str(closed.jaxpr), closed.jaxpr)
        return _compiled(draw)(*closed.consts)[0]


def donatable_copy(value: Any, dtype: str) -> jax.Array:
    """Copy a value into a new buffer on the device, which a step may overwrite.

    Args:
        value: An array, not traced, or anything that NumPy makes one of.
        dtype: The name of the result's dtype.
    """
    with jax.ensure_compile_time_eval():
        if not isinstance(value, jax.Array):
            value = np.asarray(value, dtype)
        elif value.dtype != dtype or value.weak_type:
            return jnp.array(value, dtype)
        # jnp.array compiles a program for each shape.
        return jax.device_put(value, may_alias=False)  # type: ignore[no-any-return]


def array_of_pieces(
    shape: tuple[int, ...],
    dtype: Any,
    pieces: Iterable[Any],
    sharding: jax.sharding.Sharding | None = None,
) -> jax.Array:
    """Make an array on a device of its rows, in order; the host never has more than a piece of it.

    Args:
        shape: Its shape.
        dtype: Its dtype.
        pieces: Some rows each.
        sharding: The device; None for JAX's default device.
    """
    with jax.core.eval_context():
        made, start = jnp.zeros(shape, dtype, device=sharding), 0
        for piece in pieces:
            made = jax.block_until_ready(_with_rows(made, piece, start))
            start += len(piece)
        return made


@functools.partial(jax.jit, donate_argnums=0)
def _with_rows(array: jax.Array, rows: jax.Array, start: int) -> jax.Array:
    return jax.lax.dynamic_update_slice_in_dim(array, rows, start, 0)


@dataclasses.dataclass(frozen=True)
class _Draw:
    """A program that draws numbers from a seed; equal to one with another seed.

    Attributes:
        initializer: The initializer's name and settings.
        text: The jaxpr's text.
        jaxpr: The program; the seed is among its constants.
    """

    initializer: str
    text: str
    jaxpr: jex.Jaxpr = dataclasses.field(compare=False)


@functools.lru_cache(maxsize=128)
def _compiled(draw: _Draw) -> Callable[..., list[jax.Array]]:
    """Compile a function of a jaxpr's constants, so that all seeds share a program."""

    def draw_from(*constants: jax.Array) -> list[jax.Array]:
        return jex.jaxpr_as_fun(jex.ClosedJaxpr(draw.jaxpr, constants))()  # type: ignore[no-any-return]

    return jax.jit(draw_from, compiler_options=_QUICKLY)


def only_draws(initializer: Any) -> bool:
    """Return whether an initializer is Keras' own and has a number as its seed: others may have effects."""
    return type(initializer).__module__.startswith("keras.") and isinstance(
        getattr(initializer, "seed", None), int
    )
