"""The optimizer of a canned model: by name, as an instance, or as a function that returns one."""

import copy
import re
from collections.abc import Callable
from typing import Any

from muster._keras import keras

OptimizerLike = Any
"""A name, a ``keras.optimizers.Optimizer``, or a function without arguments that returns one."""

# TensorFlow's names; Keras spells one of them differently.
_KINDS = {"Adagrad": "Adagrad", "Adam": "Adam", "Ftrl": "Ftrl", "RMSProp": "RMSprop", "SGD": "SGD"}


def optimizer_maker(optimizer: OptimizerLike, learning_rate: float) -> Callable[[], Any]:
    """How each step gets an optimizer of its own, which must be built inside of it.

    Args:
        optimizer: The argument of a canned Estimator.
        learning_rate: Of one that is given by name.

    Returns:
        A function that returns a new ``keras.optimizers.Optimizer``.

    Raises:
        ValueError: There is no such name, the instance cannot be copied, or it is something else.

    Source: ``get_optimizer_instance_v2`` (tensorflow_estimator/python/estimator/canned/optimizers.py).
    """
    if isinstance(optimizer, str):
        if optimizer not in _KINDS:
            raise ValueError(
                f"Unsupported optimizer name: {optimizer}. Supported names are: {tuple(sorted(_KINDS))}"
            )
        kind = getattr(keras.optimizers, _KINDS[optimizer])
        return lambda: kind(learning_rate=learning_rate)
    if isinstance(optimizer, keras.optimizers.Optimizer):
        return _copies(optimizer)
    if not callable(optimizer):
        raise _wrong(optimizer)

    def made() -> Any:
        returned = optimizer()
        if not isinstance(returned, keras.optimizers.Optimizer):
            raise _wrong(returned)
        return returned

    return made


def _copies(optimizer: Any) -> Callable[[], Any]:
    """A function that returns optimizers like one that was built outside of the step."""
    kind = type(optimizer)
    try:
        config = optimizer.get_config()
        unnamed = {key: value for key, value in config.items() if key != "name"}
        automatic = kind.from_config(copy.deepcopy(unnamed)).name
    except Exception as exc:  # whatever a class of the user's raises
        raise ValueError(
            f"The optimizer {optimizer!r} cannot be copied from its configuration, as each step needs it: "
            f"{exc}. Give a function that returns it, such as lambda: keras.optimizers.SGD(rate)."
        ) from exc
    # Keras numbers the names that it gives, and checkpoints must have the same ones in every process.
    stem = re.escape(re.sub(r"_\d+$", "", automatic))
    if re.fullmatch(rf"{stem}(_\d+)?", optimizer.name):
        config = unnamed
    return lambda: kind.from_config(copy.deepcopy(config))


def _wrong(given: object) -> ValueError:
    return ValueError(
        f"The given object is not a tf.keras.optimizers.Optimizer instance. Given: {given!r}. Give a name of "
        f"{tuple(sorted(_KINDS))}, a keras.optimizers.Optimizer, or a function that returns a new one."
    )
