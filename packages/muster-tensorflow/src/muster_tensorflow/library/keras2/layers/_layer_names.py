"""Keras 2's attributes for the connections of layers and models, and losses given as functions.

Source: keras/src/engine/base_layer.py and training.py of Keras 2.15.
"""

import functools
from collections.abc import Callable
from typing import Any

from muster import keras
from muster.data import TensorSpec
from muster.distribute import get_strategy
from muster_tensorflow.patches import change, wrap


def _at(which: str) -> Callable[[Any, int], Any]:
    """Make a method that returns the ``"input"`` or ``"output"`` tensors of one of a layer's calls."""

    def tensors(self: Any, node_index: int) -> Any:
        nodes = self._inbound_nodes
        if not -len(nodes) <= node_index < len(nodes):
            raise ValueError(
                f"{self.name} was called {len(nodes)} times on symbolic tensors, not {node_index}."
            )
        found = getattr(nodes[node_index], f"{which}_tensors")
        return found[0] if len(found) == 1 else list(found)

    tensors.__doc__ = f"Return the {which} of one of the calls of the layer on symbolic tensors."
    return tensors


def _shapes_at(which: str) -> Callable[[Any, int], Any]:
    tensors = _at(which)

    def shapes(self: Any, node_index: int) -> Any:
        return keras.tree.map_structure(lambda tensor: tuple(tensor.shape), tensors(self, node_index))

    shapes.__doc__ = f"Return the shape of the {which} of one of the calls of the layer on symbolic tensors."
    return shapes


def _compute_output_signature(self: Any, input_signature: Any) -> Any:
    """Return the spec of the output, of that of the input."""
    shape = self.compute_output_shape(input_signature.shape)
    return keras.tree.map_shape_structure(lambda each: TensorSpec(each, self.compute_dtype), shape)


def _add_update(self: Any, updates: Any) -> None:
    """Do nothing: what a call assigns to variables is kept."""


def _taking_functions(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``add_loss``, so that it takes functions without arguments, which are called for each step."""

    @functools.wraps(original)
    def add_loss(self: Any, losses: Any, **kwargs: Any) -> None:
        given = losses if isinstance(losses, list | tuple) else [losses]
        functions = [each for each in given if callable(each)]
        if functions:
            kept = vars(self).setdefault("_loss_functions", [])
            kept += [each for each in functions if each not in kept]
        if len(functions) < len(given):
            original(self, [each for each in given if not callable(each)] if functions else losses, **kwargs)

    return add_loss


def _with_functions(original: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
    @functools.wraps(original)
    def get_own_losses(self: Any) -> list[Any]:
        return [*original(self), *(each() for each in vars(self).get("_loss_functions", ()))]

    return get_own_losses


class _Read:
    """A value that is computed where a program reads it, and has not set one of its own."""

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self._compute = compute

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else self._compute(instance)


def _input_names(model: Any) -> list[str]:
    return [each._keras_history.operation.name for each in keras.tree.flatten(model.inputs)]


def _rename(layer: Any, name: str) -> None:
    layer.name = name


def patch() -> None:
    """Give Keras' layers and models the names."""
    layer, model = keras.layers.Layer, keras.Model
    # Programs give models that they join other names by it. Variables keep theirs.
    change(layer, "_name", property(lambda each: each.name, _rename))
    change(layer, "get_input_at", _at("input"))
    change(layer, "get_output_at", _at("output"))
    change(layer, "get_input_shape_at", _shapes_at("input"))
    change(layer, "get_output_shape_at", _shapes_at("output"))
    change(layer, "inbound_nodes", _Read(lambda each: each._inbound_nodes))
    change(layer, "outbound_nodes", _Read(lambda each: each._outbound_nodes))
    for name in ("input_mask", "output_mask"):
        change(layer, name, None)
    for name in ("stateful", "dynamic"):
        change(layer, name, False)
    change(layer, "updates", _Read(lambda each: []))
    change(layer, "add_update", _add_update)
    change(layer, "compute_output_signature", _compute_output_signature)
    add_loss = _taking_functions(layer.add_loss)
    for owner in (keras.src.models.Functional, layer):
        change(owner, "add_loss", add_loss)
    wrap(layer, "_get_own_losses", _with_functions)
    change(model, "distribute_strategy", _Read(lambda each: get_strategy()))
    change(model, "input_names", _Read(_input_names))
