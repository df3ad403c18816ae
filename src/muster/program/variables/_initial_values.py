"""The values that initializers give, of few programs, compiled quickly rather than well: each runs once."""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex

from muster._keras import keras

Array = Any

# XLA takes half a second to optimize the drawing of random numbers, and a tenth to leave it as it is. To
# draw more numbers than this takes longer than that.
_FEW = 2**20
_QUICKLY = {"xla_backend_optimization_level": 0}
# On the device, each shape to fill would be a program to trace, and to compile or to load.
_FILLED_WITH = {keras.initializers.Zeros: 0, keras.initializers.Ones: 1}


def initial_value(initializer: Any, shape: tuple[int, ...], dtype: str) -> Array:
    """The value that an initializer gives, in a buffer of its own, also while something is traced.

    Args:
        initializer: a callable (shape, dtype) -> array.
        shape: of the variable, global.
        dtype: the name of its dtype.
    """
    with jax.core.eval_context():
        few = math.prod(shape) <= _FEW
        if few and type(initializer) in _FILLED_WITH:
            return own_array(np.full(shape, _FILLED_WITH[type(initializer)], dtype), dtype)
        if not few or not _only_draws(initializer):
            return own_array(initializer(shape, dtype=dtype), dtype)
        closed = jax.make_jaxpr(lambda: jnp.array(initializer(shape, dtype=dtype), dtype=dtype))()
        settings = {name: value for name, value in initializer.get_config().items() if name != "seed"}
        draw = _Draw(f"{type(initializer).__name__}{settings}", str(closed.jaxpr), closed.jaxpr)
        return _compiled(draw)(*closed.consts)[0]


def own_array(value: Any, dtype: str) -> Array:
    """A value in a buffer of its own on the device, which a step may overwrite.

    Args:
        value: an array, not traced, or what makes one.
        dtype: the name of the result's dtype.
    """
    with jax.ensure_compile_time_eval():
        if not isinstance(value, jax.Array):
            value = np.asarray(value, dtype)
        elif value.dtype != dtype or value.weak_type:
            return jnp.array(value, dtype)
        return jax.device_put(value, may_alias=False)  # jnp.array compiles a program for each shape


@dataclasses.dataclass(frozen=True)
class _Draw:
    """What draws numbers from a seed; equal to one that differs in nothing but the seed.

    Attributes:
        initializer: its name and settings.
        text: the jaxpr's.
        jaxpr: the program; the seed is among its constants.
    """

    initializer: str
    text: str
    jaxpr: Any = dataclasses.field(compare=False)


@functools.lru_cache(maxsize=128)
def _compiled(draw: _Draw) -> Callable[..., list[Array]]:
    """A function of a jaxpr's constants: the seed handed in, the program is the same for every seed."""

    def draw_from(*constants: Array) -> list[Array]:
        return jex.jaxpr_as_fun(jex.ClosedJaxpr(draw.jaxpr, constants))()  # type: ignore[no-any-return]

    return jax.jit(draw_from, compiler_options=_QUICKLY)


def _only_draws(initializer: Any) -> bool:
    """Whether it is one of Keras' own that draws from a number as its seed: others may have effects."""
    return type(initializer).__module__.startswith("keras.") and isinstance(
        getattr(initializer, "seed", None), int
    )
