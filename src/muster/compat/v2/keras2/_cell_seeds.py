"""Cells of recurrent layers that drop values by layers of their own, such as ``Dropout``.

On JAX, Keras runs a cell in a scan, and what the cell's seeds become there would leave it as a value of the
scan, which has none outside. Here seeds go on by one after the scan. All its steps draw the same numbers, as
Keras' own recurrent dropout does; TensorFlow draws others in each.

`patch` is called when `muster.compat.tensorflow` is imported.
Tried on keras 3.15.1: ``tests/compat/v2/test_keras2_cell_seeds.py`` fails when what is used here changes.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from muster._keras import keras
from muster.program.variables import SEED_STATE, is_stateless


def _drawing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``RNN.inner_loop``."""

    @functools.wraps(original)
    def inner_loop(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_stateless():
            return original(self, *args, **kwargs)
        seeds = [each for each in getattr(self.cell, "variables", ()) if each.name == SEED_STATE]
        before = [each.value for each in seeds]
        results = original(self, *args, **kwargs)
        for seed, value in zip(seeds, before, strict=True):
            if seed.value is not value:
                seed.assign(value + jnp.array([0, 1], value.dtype))
        return results

    return inner_loop


def patch() -> None:
    """Let cells have layers that draw random numbers."""
    keras.layers.RNN.inner_loop = _drawing(keras.layers.RNN.inner_loop)
