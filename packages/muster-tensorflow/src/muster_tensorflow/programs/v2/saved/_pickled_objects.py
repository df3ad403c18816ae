"""Pickle modules and their models, for functions of a saved module that are saved as Python code."""

import io
import pickle
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from muster import keras
from muster.extend import Function, Pickler

_tracking = keras.src.utils.tracking
_TRACKED = (_tracking.TrackedList, _tracking.TrackedDict, _tracking.TrackedSet)
# What training and graphs of a model leave in it, which it need not have to be called.
_OF_TRAINING = {
    *(
        "optimizer",
        "history",
        "loss",
        "_compile_config",
        "_compile_loss",
        "_compile_metrics",
        "_loss_tracker",
    ),
    *("_compiled_trainable_state", "_eval_epoch_iterator", "_jax_state", "_inbound_nodes", "_outbound_nodes"),
    *("train_function", "test_function", "predict_function"),
}


def pickled(objects: list[Any], number_of: Callable[[Any], int]) -> bytes:
    """Pickle objects, with their classes where those cannot be imported elsewhere.

    Args:
        objects: Modules, and models of Keras.
        number_of: Numbers the variables in them, whose values are stored elsewhere.

    Raises:
        Exception: Whatever an object raises that cannot be pickled.
    """
    file = io.BytesIO()
    _Pickler(file, number_of).dump(objects)
    return file.getvalue()


def unpickled(data: bytes, variables: list[Any]) -> list[Any]:
    """Return the objects that `pickled` was given, with other variables. It runs code that the data names."""
    unpickler = _Unpickler(io.BytesIO(data))
    unpickler.variables = variables
    objects: list[Any] = unpickler.load()
    return objects


class _Pickler(Pickler):
    def __init__(self, file: io.BytesIO, number_of: Callable[[Any], int]) -> None:
        super().__init__(file)
        self._number_of = number_of

    def persistent_id(self, obj: Any) -> int | None:
        """Return the number of a variable."""
        return self._number_of(obj) if isinstance(obj, keras.Variable) else None

    def reducer_override(self, obj: Any) -> Any:
        """Take objects apart that Keras would make anew of a config, which programs' classes rarely have."""
        if isinstance(obj, Function):
            return type(obj), (obj.python_function, obj.input_signature)
        if isinstance(obj, _TRACKED):
            plain = next(kind(obj) for kind in (list, dict, set) if isinstance(obj, kind))
            return _new, (type(obj),), (plain, vars(obj)), None, None, _fill
        if type(obj) in (keras.Sequential, keras.src.models.functional.Functional):
            classes = {type(layer).__name__: type(layer) for layer in obj._flatten_layers()}
            weights = [np.asarray(each.value) for each in obj.variables]
            made = (type(obj), obj.get_config(), obj.built and obj.input_shape, classes)
            return _of_config, made, weights, None, None, _set_weights
        if isinstance(obj, keras.Layer):
            own = {key: value for key, value in vars(obj).items() if key not in _OF_TRAINING}
            # Methods among the attributes are put there by Keras and by fit.
            state = {key: value for key, value in own.items() if not callable(getattr(type(obj), key, None))}
            return _new, (type(obj),), state, None, None, _set_attributes
        if isinstance(obj, jax.Array):
            return jax.numpy.asarray, (np.asarray(obj),)
        return super().reducer_override(obj)


class _Unpickler(pickle.Unpickler):
    variables: list[Any]

    def persistent_load(self, pid: int) -> Any:
        """Return a variable by its number."""
        return self.variables[pid]


def _new(kind: Any) -> Any:
    return kind.__new__(kind)


def _of_config(kind: Any, config: dict[str, Any], shape: Any, classes: dict[str, type]) -> Any:
    model = kind.from_config(config, custom_objects=classes)
    if shape and not model.built:
        model.build(shape)
    return model


def _set_attributes(obj: Any, state: dict[str, Any]) -> None:
    vars(obj).update(state)


def _set_weights(model: Any, weights: list[Any]) -> None:
    for variable, value in zip(model.variables, weights, strict=True):
        variable.assign(value)


def _fill(obj: Any, state: tuple[Any, dict[str, Any]]) -> None:
    values, attributes = state
    vars(obj).update(attributes)
    if isinstance(obj, list):
        list.extend(obj, values)
    else:
        (dict if isinstance(obj, dict) else set).update(obj, values)
