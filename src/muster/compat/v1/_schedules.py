"""The learning rate schedules of ``tf.compat.v1.train``, over those of Keras; ``name`` is unused.

Each returns the rate at the global step, for an optimizer of ``tf.compat.v1.train``.
Source: tensorflow/python/keras/optimizer_v2/legacy_learning_rate_decay.py.
"""

from collections.abc import Sequence

import jax

from muster._keras import keras
from muster.compat.ops._arrays import ArrayLike, as_array

schedules = keras.optimizers.schedules


def exponential_decay(
    learning_rate: float,
    global_step: ArrayLike,
    decay_steps: int,
    decay_rate: float,
    staircase: bool = False,
    name: str | None = None,
) -> jax.Array:
    """Return ``learning_rate * decay_rate ** (global_step / decay_steps)``.

    With ``staircase`` the quotient of the steps is rounded down.
    """
    schedule = schedules.ExponentialDecay(learning_rate, decay_steps, decay_rate, staircase)
    return _rate_at(schedule, global_step)


def inverse_time_decay(
    learning_rate: float,
    global_step: ArrayLike,
    decay_steps: int,
    decay_rate: float,
    staircase: bool = False,
    name: str | None = None,
) -> jax.Array:
    """Return ``learning_rate / (1 + decay_rate * global_step / decay_steps)``.

    With ``staircase`` the quotient of the steps is rounded down.
    """
    schedule = schedules.InverseTimeDecay(learning_rate, decay_steps, decay_rate, staircase)
    return _rate_at(schedule, global_step)


def natural_exp_decay(
    learning_rate: float,
    global_step: ArrayLike,
    decay_steps: int,
    decay_rate: float,
    staircase: bool = False,
    name: str | None = None,
) -> jax.Array:
    """Return ``learning_rate * exp(-decay_rate * global_step / decay_steps)``.

    With ``staircase`` the quotient of the steps is rounded down.
    """
    natural = float(keras.ops.exp(-decay_rate))
    return exponential_decay(learning_rate, global_step, decay_steps, natural, staircase)


def polynomial_decay(
    learning_rate: float,
    global_step: ArrayLike,
    decay_steps: int,
    end_learning_rate: float = 0.0001,
    power: float = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> jax.Array:
    """Decay from ``learning_rate`` to ``end_learning_rate`` in ``decay_steps``, by a polynomial.

    With ``cycle``, later steps take the smallest multiple of ``decay_steps`` that they have not passed.
    """
    schedule = schedules.PolynomialDecay(learning_rate, decay_steps, end_learning_rate, power, cycle)
    return _rate_at(schedule, global_step)


def cosine_decay(
    learning_rate: float,
    global_step: ArrayLike,
    decay_steps: int,
    alpha: float = 0.0,
    name: str | None = None,
) -> jax.Array:
    """Decay from ``learning_rate`` to ``alpha * learning_rate`` in ``decay_steps``, along half a cosine."""
    return _rate_at(schedules.CosineDecay(learning_rate, decay_steps, alpha), global_step)


def piecewise_constant(
    x: ArrayLike, boundaries: Sequence[int], values: Sequence[float], name: str | None = None
) -> jax.Array:
    """Return ``values[0]`` up to and including step ``boundaries[0]``, then ``values[1]``, and so on."""
    schedule = schedules.PiecewiseConstantDecay(list(boundaries), list(values))
    return _rate_at(schedule, x)


def _rate_at(schedule: keras.optimizers.schedules.LearningRateSchedule, global_step: ArrayLike) -> jax.Array:
    rate: jax.Array = schedule(as_array(global_step))
    return rate
