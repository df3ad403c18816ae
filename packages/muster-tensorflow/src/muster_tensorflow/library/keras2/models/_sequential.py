"""Keras 2's sequential models without an input: calls with other shapes, and ``input`` and ``output``.

``Sequential([Resizing(4, 4), Rescaling(2.0)])`` takes an image, then a batch of them, and then begins another
model. In Keras 3 the first call decides: other shapes are refused, and so is what follows it in a model that
it begins. Here shapes that are not those of the first call go through the layers, one after the other.

An input may be in a dictionary by its name, also by that of Keras 2, such as ``conv2d_input``.

``model.input`` and ``model.output``, of which feature extractors are made, are there once the model is built,
not only after another model has called it.

Source: keras/src/engine/sequential.py of Keras 2.15, ``_build_graph_network_for_inferred_shape``.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from muster import keras
from muster.extend import input_keys
from muster_tensorflow.library.keras2.models._text_models import is_part
from muster_tensorflow.patches import change, wrap

_OPEN = "_shape_is_that_of_a_call"


def _building(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``build``: a model that begins without an input is open to other shapes."""

    @functools.wraps(original)
    def build(self: Any, input_shape: Any = None) -> None:
        if self._layers and not isinstance(self._layers[0], keras.layers.InputLayer):
            setattr(self, _OPEN, True)
        original(self, input_shape)

    return build


def _beginning(original: Callable[[Any], None]) -> Callable[[Any], None]:
    """Wrap ``_maybe_rebuild``, which builds a model by the shape of the model that it begins with."""

    @functools.wraps(original)
    def rebuild(self: Any) -> None:
        if getattr(self._layers[0], _OPEN, False):
            self.built, self._functional = False, None
        else:
            original(self)

    return rebuild


def _calling(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``call``."""

    @functools.wraps(original)
    def call(self: Any, inputs: Any, training: Any = None, mask: Any = None, **kwargs: Any) -> Any:
        inputs, mask = _chosen(self, inputs), _chosen(self, mask)
        if not _is_other_shape(self, getattr(inputs, "shape", None)):
            return original(self, inputs, training=training, mask=mask, **kwargs)
        for layer in self.layers:
            inputs = layer(inputs, **_training_of(layer, training))
        return inputs

    return call


def _chosen(model: Any, inputs: Any) -> Any:
    """Return a model's input, which may be in a dictionary by its name.

    Raises:
        ValueError: The dictionary does not have it.

    Source: ``Functional._flatten_to_reference_inputs`` (keras/src/engine/functional.py) of Keras 2.15.
    """
    if not isinstance(inputs, Mapping) or not model._functional or not _takes_one(model):
        return inputs
    if any(is_part(key) for key in inputs):
        return inputs  # what the host has computed of text
    keys = input_keys(model, inputs)
    if not keys:
        raise ValueError(
            f"The input of the model {model.name!r} is missing: the dictionary has the keys "
            f"{', '.join(map(repr, inputs)) or 'none'}. Name it {model.layers[0].name}_input, or "
            f"{model.input_names[0]}."
        )
    return inputs[keys[0]]


def _takes_one(model: Any) -> bool:
    """Return whether a model takes one array: one that begins with a model may take a dictionary."""
    return not isinstance(model._functional._inputs_struct, list | tuple | dict)


def _specifying(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``compute_output_spec``."""

    @functools.wraps(original)
    def compute_output_spec(
        self: Any, inputs: Any, training: Any = None, mask: Any = None, **kwargs: Any
    ) -> Any:
        inputs, mask = _chosen(self, inputs), _chosen(self, mask)
        if not _is_other_shape(self, getattr(inputs, "shape", None)):
            return original(self, inputs, training=training, mask=mask, **kwargs)
        for layer in self.layers:
            inputs = layer.compute_output_spec(inputs, **_training_of(layer, training))
        return inputs

    return compute_output_spec


def _shaping(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``compute_output_shape``."""

    @functools.wraps(original)
    def compute_output_shape(self: Any, input_shape: Any) -> Any:
        if not _is_other_shape(self, input_shape):
            return original(self, input_shape)
        for layer in self.layers:
            input_shape = layer.compute_output_shape(input_shape)
        return input_shape

    return compute_output_shape


def _training_of(layer: Any, training: Any) -> dict[str, Any]:
    """Return the argument ``training`` for a layer that has it, if it is known."""
    return {"training": training} if layer._call_has_training_arg and training is not None else {}


def _end(name: str) -> property:
    """Return the property ``input`` or ``output``: that of the model which Keras builds of the layers."""

    def end(self: Any) -> Any:
        if self._functional:
            return getattr(self._functional, name)
        return getattr(super(keras.Sequential, self), name)

    return property(end)


def _is_other_shape(model: Any, shape: Any) -> bool:
    """Return whether a shape is none that the model was built for, but for the size of a batch."""
    if not getattr(model, _OPEN, False) or not model._functional or not isinstance(shape, tuple | list):
        return False
    known = model._layers[0].batch_shape
    if len(shape) == len(known):
        sizes = zip(shape[1:], known[1:], strict=True)
        return any(None not in pair and pair[0] != pair[1] for pair in sizes)
    longer, shorter = sorted((tuple(shape), tuple(known)), key=len, reverse=True)
    return len(longer) > len(shorter) + 1 or longer[-1] != 1  # Keras adds and takes a last axis of size 1


def _of_one(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``__init__``, which also takes a single layer."""

    @functools.wraps(original)
    def init(self: Any, layers: Any = None, **kwargs: Any) -> None:  # Keras cannot tell *args
        original(self, [layers] if isinstance(layers, keras.Layer) else layers, **kwargs)

    return init


def patch() -> None:
    """Let sequential models without an input take other shapes, and all have their ends."""
    model = keras.Sequential
    wrap(model, "__init__", _of_one)
    change(model, "input", _end("input"))
    change(model, "output", _end("output"))
    wrap(model, "build", _building)
    wrap(model, "_maybe_rebuild", _beginning)
    wrap(model, "call", _calling)
    wrap(model, "compute_output_spec", _specifying)
    wrap(model, "compute_output_shape", _shaping)
