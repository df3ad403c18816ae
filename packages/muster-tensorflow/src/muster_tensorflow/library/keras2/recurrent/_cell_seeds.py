"""Run a program's own recurrent cells if they use dropout or keep values between steps.

In eager code a cell of the program's own is called in each step, as in TensorFlow, so that it may keep
values. In compiled code, on JAX, Keras runs a cell in a scan, and what the cell's seeds become there would
leave it as a value of the scan, which has none outside. Here seeds go on by one after the scan. All its steps
draw the same numbers, as Keras' own recurrent dropout does; TensorFlow draws others in each.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from muster import keras
from muster.extend import SEED_STATE, bound_value, is_stateless
from muster_tensorflow.patches import wrap


def _drawing(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``RNN.inner_loop``."""

    @functools.wraps(original)
    def inner_loop(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_own(self.cell):
            return original(self, *args, **kwargs)
        if not is_stateless():
            before_call, self.unroll = self.unroll, self.unroll or _is_eager((args, kwargs))
            try:
                return original(self, *args, **kwargs)
            finally:
                self.unroll = before_call
        seeds = [each for each in getattr(self.cell, "variables", ()) if each.name == SEED_STATE]
        values = [each.value for each in seeds]
        bound = list(map(bound_value, seeds))
        results = original(self, *args, **kwargs)
        for seed, value, before in zip(seeds, values, bound, strict=True):
            if bound_value(seed) is not before:
                seed.assign(value + jnp.array([0, 1], value.dtype))
        return results

    return inner_loop


def _is_own(cell: Any) -> bool:
    """Return whether a cell is of the program's own, or has one."""
    return not all(type(each).__module__.startswith("keras.") for each in getattr(cell, "cells", [cell]))


def _is_eager(arguments: Any) -> bool:
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arguments))


def patch() -> None:
    """Let cells have layers that draw random numbers, and keep values."""
    wrap(keras.layers.RNN, "inner_loop", _drawing)
