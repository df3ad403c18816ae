"""Seed Keras' initializers and layers as `DeterministicRandomTestTool` says."""

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from muster import keras
from muster_tensorflow.library.ops.random._fixed_seeds import fixed_seed
from muster_tensorflow.library.ops.random._generators import note_draw
from muster_tensorflow.patches import wrap


def _drawing(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap ``draw_seed``, which gives the seed of what draws next."""

    @functools.wraps(original)
    def draw_seed(seed: Any) -> Any:
        note_draw("keras")
        fixed = fixed_seed()
        return original(seed) if fixed is None else jnp.array(fixed, jnp.uint32)

    return draw_seed


def patch() -> None:
    """Let Keras ask for seeds."""
    module = keras.src.backend.jax.random
    wrap(module, "draw_seed", _drawing)
