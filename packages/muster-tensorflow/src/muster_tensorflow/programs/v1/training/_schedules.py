"""The learning rate schedules of ``tf.compat.v1.train``, over those of Keras; ``name`` is unused.

Each returns the rate at the global step, for an optimizer of ``tf.compat.v1.train``.
Source: tensorflow/python/keras/optimizer_v2/legacy_learning_rate_decay.py.
"""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from muster import keras
from muster_tensorflow.library.ops._arrays import ArrayLike, as_array

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
    natural = math.exp(-decay_rate)
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


piecewise_constant_decay = piecewise_constant


def cosine_decay_restarts(
    learning_rate: float,
    global_step: ArrayLike,
    first_decay_steps: int,
    t_mul: float = 2.0,
    m_mul: float = 1.0,
    alpha: float = 0.0,
    name: str | None = None,
) -> jax.Array:
    """Decay along half a cosine again and again.

    Each time it takes ``t_mul`` times as many steps, from ``m_mul`` times the rate to
    ``alpha * learning_rate``.
    """
    schedule = schedules.CosineDecayRestarts(learning_rate, first_decay_steps, t_mul, m_mul, alpha)
    return _rate_at(schedule, global_step)


def linear_cosine_decay(
    learning_rate: float,
    global_step: ArrayLike,
    decay_steps: int,
    num_periods: float = 0.5,
    alpha: float = 0.0,
    beta: float = 0.001,
    name: str | None = None,
) -> jax.Array:
    """Decay in ``decay_steps`` along a line times a cosine of ``num_periods`` periods.

    ``alpha`` is added to the line, ``beta`` to the product.
    """
    return learning_rate * _linear_cosine(global_step, decay_steps, num_periods, alpha, beta, 0.0)


def noisy_linear_cosine_decay(
    learning_rate: float,
    global_step: ArrayLike,
    decay_steps: int,
    initial_variance: float = 1.0,
    variance_decay: float = 0.55,
    num_periods: float = 0.5,
    alpha: float = 0.0,
    beta: float = 0.001,
    name: str | None = None,
) -> jax.Array:
    """Decay as `linear_cosine_decay` does, with normal noise added to the line.

    Its variance is ``initial_variance / (1 + global_step) ** variance_decay``. The noise of a step is the
    same on all replicas and in each run; in TensorFlow it is not.
    """
    step = as_array(global_step)
    past = jnp.minimum(step, decay_steps).astype(jnp.float32)
    deviation = jnp.sqrt(initial_variance / (1 + past) ** variance_decay)
    noise = deviation * jax.random.normal(jax.random.fold_in(jax.random.key(0), step))
    return learning_rate * _linear_cosine(step, decay_steps, num_periods, alpha, beta, noise)


def _linear_cosine(
    global_step: ArrayLike,
    decay_steps: int,
    num_periods: float,
    alpha: float,
    beta: float,
    noise: jax.Array | float,
) -> jax.Array:
    done = jnp.minimum(as_array(global_step), decay_steps) / decay_steps
    cosine = 0.5 * (1 + jnp.cos(2 * jnp.pi * num_periods * done))
    return (alpha + 1 - done + noise) * cosine + beta


def _rate_at(schedule: keras.optimizers.schedules.LearningRateSchedule, global_step: ArrayLike) -> jax.Array:
    rate: jax.Array = schedule(as_array(global_step))
    return rate
