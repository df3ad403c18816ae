"""Tells whether a model's step is TensorFlow's, ``train_step(self, data)``, or Keras' for JAX."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from muster._keras import keras
from muster.program.variables import layers_assign_weights
from muster.program.variables.keras_internals import has_metrics_in_layers, layers_within

STEPS = {"fit": "train_step", "evaluate": "test_step", "predict": "predict_step"}
"""The step that each method of a model takes."""

FUNCTIONS = {"fit": "train_function", "evaluate": "test_function", "predict": "predict_function"}
"""The attribute of a model that holds what Keras calls for the steps of each method."""


def takes_data(model: Any, method: str) -> bool:
    """Return whether the step of a method takes the data alone, and changes the model's variables itself.

    Keras' own steps on JAX take the state, too, and return the new one. They do not expect a layer to update
    metrics or weights when it is called: models with such layers take them in their other form. A step that
    takes any arguments, as a decorator may leave it, is of the kind of the one that it overrides.

    Args:
        model: A Keras model.
        method: ``fit``, ``evaluate`` or ``predict``.

    Raises:
        TypeError: The step takes neither.
    """
    name = STEPS[method]
    own = getattr(keras.Model, name)
    for step in _overrides(model, name):
        if getattr(step, "__func__", None) is own:
            return has_metrics_in_layers(model) or layers_assign_weights(model)
        kind = _takes_data_alone(step, f"{type(model).__name__}.{name}")
        if kind is not None:
            return kind
    return False


def may_have_own_steps(model: Any) -> bool:
    """Return whether a step of a model takes the data alone, which Keras on JAX would not call.

    Or may do so when the model is built: nobody has seen yet what its layers do when they are called.
    """
    unseen = not model.built and any(_is_of_program(layer) for layer in layers_within(model))
    return unseen or any(takes_data(model, method) for method in STEPS)


def _is_of_program(layer: Any) -> bool:
    return not isinstance(layer, keras.Model) and type(layer).__module__.split(".")[0] != "keras"


def _overrides(model: Any, name: str) -> Iterator[Callable[..., Any]]:
    """Yield the steps of a model under a name, bound to it: the one that is called, then those it hides."""
    if name in vars(model):
        yield vars(model)[name]
    for owner in type(model).__mro__:
        if name in vars(owner):
            yield vars(owner)[name].__get__(model, type(model))


def _takes_data_alone(step: Callable[..., Any], name: str) -> bool | None:
    """Return whether a bound step takes the data alone; None if it takes any arguments."""
    signature = inspect.signature(step)
    alone, with_state = _takes(signature, 1), _takes(signature, 2)
    if not alone and not with_state:
        raise TypeError(
            f"{name} takes {signature}. Define it as `{name.split('.')[-1]}(self, data)`, which changes the "
            "model's variables, or, Keras' way on JAX, `(self, state, data)`, which returns the new state."
        )
    if alone and with_state:
        first = next(iter(signature.parameters.values()))
        return None if first.kind is first.VAR_POSITIONAL else first.name != "state"
    return alone


def _takes(signature: inspect.Signature, count: int) -> bool:
    """Return whether a function takes this number of arguments by position."""
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True
