"""Run a step, for the tests of TensorFlow 1's names."""

from typing import Any

import jax
import jax.numpy as jnp

from muster.program.trace._program import Program


def outputs_of(function: Any) -> dict[str, Any]:
    """Return the outputs of a step on the number 1.0."""
    program = Program(lambda x: (function(x), None), jnp.float32(1.0))
    return jax.jit(program.step)(program.initial, jnp.float32(1.0))[1]
