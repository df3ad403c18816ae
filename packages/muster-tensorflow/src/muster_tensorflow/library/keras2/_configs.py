"""Give the configs of layers and models the entries that Keras 2 gives them, and leave out Keras 3's.

A class without a ``get_config`` of its own is made again with what its ``__init__`` takes: Keras 3 gives it
``trainable`` and ``dtype``, too; and ``trainable`` to a model of inputs and outputs. A layer whose ``build``
takes more than a shape finds the shape under ``input_shape``, beside what Keras 3 notes. An operation of a
model, such as the ``Add`` of ``x + y``, is written into an h5 file with its module: Keras 3 takes it for a
layer of the same name when it reads the file.

Files of Keras 2 are read with layers in others, such as that of ``Bidirectional``, and with what the model
was compiled with.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from muster import keras
from muster_tensorflow.patches import change, wrap

_SHAPES, _SHAPE = "shapes_dict", "input_shape"
# Losses and metrics of a function, and the names of metrics that stand for one by the shape of labels.
_OF_A_FUNCTION = ("LossFunctionWrapper", "MeanMetricWrapper")
_CHOSEN_BY_SHAPE = ("accuracy", "acc", "crossentropy", "ce")
_OF_KERAS_2_ALONE = ("fn", "is_legacy_optimizer")


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


def _of_taken_arguments(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``functional_from_config``, which gives ``trainable`` to classes that do not take it, too."""

    @functools.wraps(original)
    def functional_from_config(cls: Any, config: Any, custom_objects: Any = None) -> Any:
        takes = inspect.getfullargspec(cls.__init__)

        def make(*, trainable: bool, **kwargs: Any) -> Any:
            model = cls(**kwargs)
            if not trainable:  # else it says nothing of the layers
                model.trainable = False
            return model

        takes_it = takes.varkw is not None or "trainable" in (*takes.args, *takes.kwonlyargs)
        return original(cls if takes_it else make, config, custom_objects)

    return functional_from_config


def _with_modules_of_operations(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap the ``serialize_keras_object`` of h5 files."""

    @functools.wraps(original)
    def serialize_keras_object(instance: Any) -> Any:
        if isinstance(instance, keras.Operation) and not isinstance(instance, keras.Layer):
            return keras.saving.serialize_keras_object(instance)
        return original(instance)

    return serialize_keras_object


def _of_named_layers(original: Callable[..., Any]) -> Any:
    """Wrap ``from_config`` of a layer with others in it, of which Keras 2 says no modules."""

    @functools.wraps(original)
    def from_config(cls: type, config: dict[str, Any], custom_objects: Any = None) -> Any:
        named = {name: _with_module(each, custom_objects) for name, each in config.items()}
        return original(cls, named, custom_objects)

    return classmethod(from_config)


def _with_module(config: Any, custom_objects: Any) -> Any:
    if isinstance(config, list):
        return [_with_module(each, custom_objects) for each in config]
    name = config.get("class_name", "") if isinstance(config, dict) and "module" not in config else ""
    # A program's class may be called as one of Keras is.
    if hasattr(keras.layers, name) and keras.saving.get_registered_object(name, custom_objects) is None:
        return {"module": "keras.layers", "registered_name": None, **config}
    return config


def _of_keras_2(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap what makes the arguments of ``compile`` of their configs in a file."""

    @functools.wraps(original)
    def compile_args(training_config: dict[str, Any], custom_objects: Any = None) -> Any:
        own = {name: _compiled(each, custom_objects) for name, each in training_config.items()}
        return original(own, custom_objects)

    return compile_args


def _compiled(config: Any, custom_objects: Any) -> Any:
    """Return configs of losses, metrics and optimizers of Keras 2 as Keras 3 has them."""
    if isinstance(config, list | tuple):
        return [_compiled(each, custom_objects) for each in config]
    if not isinstance(config, dict) or "module" in config:
        return config
    if "class_name" not in config:
        return {name: _compiled(each, custom_objects) for name, each in config.items()}
    name, own = config["class_name"], config["config"]
    if keras.saving.get_registered_object(name, custom_objects) is None:  # registered ones may have it
        name = name.removeprefix("Custom>")
    if name in _OF_A_FUNCTION:
        return own["name"] if own["name"] in _CHOSEN_BY_SHAPE else own["fn"]
    kept = {key: each for key, each in own.items() if key not in _OF_KERAS_2_ALONE}
    if kept.get("reduction") == "auto":
        del kept["reduction"]
    return {"class_name": name, "config": kept}


def patch() -> None:
    """Give Keras' layers these configs."""
    files = keras.src.legacy.saving.saving_utils
    wrap(files, "compile_args_from_training_config", _of_keras_2)
    for kind in (
        keras.layers.Wrapper,
        keras.layers.Bidirectional,
        keras.layers.RNN,
        keras.layers.StackedRNNCells,
    ):
        change(kind, "from_config", _of_named_layers(kind.from_config.__func__))
    functional = keras.src.models.functional
    wrap(functional, "functional_from_config", _of_taken_arguments)
    layer = keras.layers.Layer
    wrap(layer, "get_config", _of_what_init_takes)
    wrap(layer, "get_build_config", _with_shape)
    wrap(layer, "build_from_config", _by_shapes)
    of_h5_files = keras.src.legacy.saving.serialization
    wrap(of_h5_files, "serialize_keras_object", _with_modules_of_operations)
