"""Give the configs of layers and models the entries that Keras 2 gives them, and leave out Keras 3's.

A class without a ``get_config`` of its own is made again with what its ``__init__`` takes: Keras 3 gives it
``trainable`` and ``dtype``, too. A layer whose ``build`` takes more than a shape finds the shape under
``input_shape``, beside what Keras 3 notes. An operation of a model, such as the ``Add`` of ``x + y``, is
written into an h5 file with its module: Keras 3 takes it for a layer of the same name when it reads the file.
Tried on keras 3.15.1: ``tests/compat/v2/test_keras2_configs.py`` fails when what is used here changes.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from muster._keras import keras

_SHAPES, _SHAPE = "shapes_dict", "input_shape"


def _of_what_init_takes(original: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    """Wrap ``Layer.get_config``."""

    @functools.wraps(original)
    def get_config(self: Any) -> dict[str, Any]:
        config = original(self)
        if type(self).get_config is not get_config:
            return config  # a class adds its own to it
        parameters = inspect.signature(type(self).__init__).parameters
        if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
            return config
        return {name: value for name, value in config.items() if name in parameters}

    return get_config


def _with_shape(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap ``get_build_config``."""

    @functools.wraps(original)
    def get_build_config(self: Any) -> Any:
        config = original(self)
        if config and _SHAPE in config.get(_SHAPES, ()):
            return {_SHAPE: config[_SHAPES][_SHAPE], **config}
        return config

    return get_build_config


def _by_shapes(original: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Wrap ``build_from_config``: Keras' own takes what Keras 3 notes, where it is there."""

    @functools.wraps(original)
    def build_from_config(self: Any, config: Any) -> None:
        original(self, {_SHAPES: config[_SHAPES]} if config and _SHAPES in config else config)

    return build_from_config


def _with_modules_of_operations(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap the ``serialize_keras_object`` of h5 files."""

    @functools.wraps(original)
    def serialize_keras_object(instance: Any) -> Any:
        if isinstance(instance, keras.Operation) and not isinstance(instance, keras.Layer):
            return keras.saving.serialize_keras_object(instance)
        return original(instance)

    return serialize_keras_object


def patch() -> None:
    """Give Keras' layers these configs."""
    layer = keras.layers.Layer
    layer.get_config = _of_what_init_takes(layer.get_config)
    layer.get_build_config = _with_shape(layer.get_build_config)
    layer.build_from_config = _by_shapes(layer.build_from_config)
    of_h5_files = keras.src.legacy.saving.serialization
    of_h5_files.serialize_keras_object = _with_modules_of_operations(of_h5_files.serialize_keras_object)
