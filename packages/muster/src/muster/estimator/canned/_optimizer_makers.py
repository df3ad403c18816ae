"""Optimizers of canned models, by name, as an instance, or by a function that returns one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from muster import optimizers
from muster._keras import keras
from muster.program.gradients import copies_of


@dataclass(frozen=True)
class AtModelsRate:
    """An optimizer with the learning rate that a model has for optimizers that are given by name.

    Args:
        make: Takes the learning rate, returns a new optimizer.
    """

    make: Callable[[float], keras.optimizers.Optimizer]


OptimizerLike: TypeAlias = (
    str | keras.optimizers.Optimizer | Callable[[], keras.optimizers.Optimizer] | AtModelsRate
)
"""A name, a ``keras.optimizers.Optimizer``, or a function without arguments that returns one."""

_KINDS = {
    "Adagrad": optimizers.Adagrad,
    "Adam": optimizers.Adam,
    "Ftrl": optimizers.Ftrl,
    "RMSProp": optimizers.RMSprop,
    "SGD": optimizers.SGD,
}


def optimizer_maker(
    optimizer: OptimizerLike, learning_rate: float, clipnorm: float | None = None
) -> Callable[[], keras.Optimizer]:
    """Return a function that makes a new optimizer: each trace of a model_fn must build its own.

    Args:
        optimizer: The argument of a canned Estimator.
        learning_rate: The learning rate of an optimizer that is given by name.
        clipnorm: The largest norm of a variable's gradient for such an optimizer; None for any.

    Raises:
        ValueError: The name is unknown, the instance cannot be copied, or it is neither.

    Source: ``get_optimizer_instance_v2`` (tensorflow_estimator/python/estimator/canned/optimizers.py).
    """
    if isinstance(optimizer, str):
        if optimizer not in _KINDS:
            raise ValueError(
                f"Unsupported optimizer name: {optimizer}. Supported names are: {tuple(sorted(_KINDS))}"
            )
        kind = _KINDS[optimizer]
        return lambda: kind(learning_rate=learning_rate, clipnorm=clipnorm)
    if isinstance(optimizer, AtModelsRate):
        return lambda: optimizer.make(learning_rate)
    if isinstance(optimizer, keras.optimizers.Optimizer):
        return copies_of(optimizer)
    if not callable(optimizer):
        raise _wrong(optimizer)

    def made() -> keras.Optimizer:
        returned = optimizer()
        if not isinstance(returned, keras.optimizers.Optimizer):
            raise _wrong(returned)
        return returned

    return made


def _wrong(argument: object) -> ValueError:
    return ValueError(
        f"The given object is not a tf.keras.optimizers.Optimizer instance. Given: {argument!r}. Give a name "
        f"of {tuple(sorted(_KINDS))}, a keras.optimizers.Optimizer, or a function that returns a new one."
    )
