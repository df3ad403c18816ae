"""The values that initializers give, compiled quickly rather than well: such a program runs once."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core as jex

Array = Any

# XLA takes half a second to optimize the drawing of random numbers, and a tenth to leave it as it is. To
# draw more numbers than this takes longer than that.
_FEW = 2**20
_QUICKLY = {"xla_backend_optimization_level": 0}


def initial_value(initializer: Any, shape: tuple[int, ...], dtype: str) -> Array:
    """The value that an initializer gives, in a buffer of its own, also while something is traced.

    Args:
        initializer: a callable (shape, dtype) -> array.
        shape: of the variable, global.
        dtype: the name of its dtype.
    """

    def make() -> Array:
        return jnp.array(initializer(shape, dtype=dtype), dtype=dtype)

    with jax.core.eval_context():
        if not _only_draws(initializer) or math.prod(shape) > _FEW:
            return make()
        closed = jax.make_jaxpr(make)()

        def draw(*constants: Array) -> list[Array]:
            return jex.jaxpr_as_fun(jex.ClosedJaxpr(closed.jaxpr, constants))()  # type: ignore[no-any-return]

        # The seed is a constant. Handed in, it leaves the program the same for every seed, and so the
        # program is found in the compilation cache.
        return jax.jit(draw, compiler_options=_QUICKLY)(*closed.consts)[0]


def _only_draws(initializer: Any) -> bool:
    """Whether it is one of Keras' own that draws from a number as its seed: others may have effects."""
    return type(initializer).__module__.startswith("keras.") and isinstance(
        getattr(initializer, "seed", None), int
    )
