"""The learning rates of ``tf.compat.v1.train``, by Keras' schedules; ``name`` means nothing.

Each returns the rate at the global step, a value of the step, for an optimizer of ``tf.compat.v1.train``.
Source: tensorflow/python/keras/optimizer_v2/legacy_learning_rate_decay.py.
"""

from collections.abc import Callable, Sequence
from typing import Any

from muster._keras import keras
from muster.compat.ops._arrays import Array, as_array
from muster.compat.v1._naming import named_after


def _decay(make_schedule: Callable[[float, int, float, bool], Any]) -> Callable[..., Array]:
    """The learning rate of a schedule that is made of these numbers, at the global step."""

    def rate(
        learning_rate: float,
        global_step: Any,
        decay_steps: int,
        decay_rate: float,
        staircase: bool = False,
        name: str | None = None,
    ) -> Array:
        schedule = make_schedule(learning_rate, decay_steps, decay_rate, staircase)
        return schedule(as_array(global_step))

    return named_after(make_schedule, rate)


@_decay
def exponential_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool) -> Any:
    """``learning_rate * decay_rate ** (global_step / decay_steps)``; whole periods only if ``staircase``."""
    return keras.optimizers.schedules.ExponentialDecay(learning_rate, decay_steps, decay_rate, staircase)


@_decay
def inverse_time_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool) -> Any:
    """``learning_rate / (1 + decay_rate * global_step / decay_steps)``; whole periods if ``staircase``."""
    return keras.optimizers.schedules.InverseTimeDecay(learning_rate, decay_steps, decay_rate, staircase)


@_decay
def natural_exp_decay(learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool) -> Any:
    """``learning_rate * exp(-decay_rate * global_step / decay_steps)``; whole periods if ``staircase``."""
    natural = float(keras.ops.exp(-decay_rate))
    return keras.optimizers.schedules.ExponentialDecay(learning_rate, decay_steps, natural, staircase)


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
