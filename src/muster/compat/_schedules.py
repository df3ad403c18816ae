"""The learning rates of ``tf.compat.v1.train``, by Keras' schedules; ``name`` means nothing.

Each returns the rate at the global step, a value of the step, for an optimizer of ``tf.compat.v1.train``.
Source: tensorflow/python/keras/optimizer_v2/legacy_learning_rate_decay.py.
"""

from collections.abc import Sequence
from typing import Any

from muster._keras import keras
from muster.compat._arrays import Array, as_array


def exponential_decay(
    learning_rate: float,
    global_step: Any,
    decay_steps: int,
    decay_rate: float,
    staircase: bool = False,
    name: str | None = None,
) -> Array:
    """``learning_rate * decay_rate ** (global_step / decay_steps)``; whole periods only if ``staircase``."""
    schedule = keras.optimizers.schedules.ExponentialDecay(learning_rate, decay_steps, decay_rate, staircase)
    return schedule(as_array(global_step))


def inverse_time_decay(
    learning_rate: float,
    global_step: Any,
    decay_steps: int,
    decay_rate: float,
    staircase: bool = False,
    name: str | None = None,
) -> Array:
    """``learning_rate / (1 + decay_rate * global_step / decay_steps)``; whole periods if ``staircase``."""
    schedule = keras.optimizers.schedules.InverseTimeDecay(learning_rate, decay_steps, decay_rate, staircase)
    return schedule(as_array(global_step))


def natural_exp_decay(
    learning_rate: float,
    global_step: Any,
    decay_steps: int,
    decay_rate: float,
    staircase: bool = False,
    name: str | None = None,
) -> Array:
    """``learning_rate * exp(-decay_rate * global_step / decay_steps)``; whole periods if ``staircase``."""
    natural = float(keras.ops.exp(-decay_rate))
    return exponential_decay(learning_rate, global_step, decay_steps, natural, staircase)


def polynomial_decay(
    learning_rate: float,
    global_step: Any,
    decay_steps: int,
    end_learning_rate: float = 0.0001,
    power: float = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Array:
    """From ``learning_rate`` to ``end_learning_rate`` in so many steps; over and over if ``cycle``."""
    schedule = keras.optimizers.schedules.PolynomialDecay(
        learning_rate, decay_steps, end_learning_rate, power, cycle
    )
    return schedule(as_array(global_step))


def cosine_decay(
    learning_rate: float, global_step: Any, decay_steps: int, alpha: float = 0.0, name: str | None = None
) -> Array:
    """From ``learning_rate`` to ``alpha * learning_rate`` along half a cosine."""
    return keras.optimizers.schedules.CosineDecay(learning_rate, decay_steps, alpha)(as_array(global_step))


def piecewise_constant(
    x: Any, boundaries: Sequence[int], values: Sequence[float], name: str | None = None
) -> Array:
    """``values[0]`` up to and including step ``boundaries[0]``, and so on."""
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay(list(boundaries), list(values))
    return schedule(as_array(x))
