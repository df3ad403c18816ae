"""Run ``build`` of a program's layers eagerly, also for nested layers.

Keras 3 calls it while it asks the other for shapes: what it computes are then traced values, and it may
create no `tf.Variable` of them. In Keras 2 it is code outside of the graph.

``build`` of recurrent layers takes ``input_shape`` by that name.

``build`` of a model whose class has none calls the model on shapes, so that its layers are built, too.

A layer takes ``weights=``, which it has once it is built.

A layer that has not called Keras' constructor is one that has not been built: it can be saved.

Source: keras/engine/base_layer.py, ``Layer._maybe_build`` and its ``maybe_init_scope``, of Keras 2.15.
"""

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from numbers import Integral
from typing import Any

from muster import keras
from muster.extend import computing, current_scope, only_shapes_are_asked, outside_of_shapes
from muster_tensorflow.library.ops.arrays._tensor_shape import TensorShape
from muster_tensorflow.patches import change, wrap

_CALLED: ContextVar[Any] = ContextVar("muster_model_built_by_call", default=None)


def _creating(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Layer.__new__``, which gives a layer its ``build``."""

    @functools.wraps(original)
    def new(cls: type, *args: Any, **kwargs: Any) -> Any:
        layer = original(cls, *args, **kwargs)
        if not cls.build.__module__.startswith("keras."):  # type: ignore[attr-defined]  # layers have one
            layer.build = _eagerly(layer.build)
        elif _first_of(cls.build) in ("sequences_shape", "inputs_shape"):  # type: ignore[attr-defined]
            layer.build = _of_input_shape(layer.build)
        return layer

    return new


@functools.cache
def _first_of(build: Callable[..., None]) -> str:
    """Return how a method calls its first argument."""
    return next(iter([*inspect.signature(build).parameters][1:]), "")


def _of_input_shape(build: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``build`` of recurrent layers, which calls the shape ``input_shape`` in Keras 2."""

    @functools.wraps(build)
    def built(*args: Any, **kwargs: Any) -> None:
        named = [kwargs.pop("input_shape")] if "input_shape" in kwargs else []
        build(*named, *args, **kwargs)

    return built


def _eagerly(build: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(build)
    def built(*args: Any, **kwargs: Any) -> None:
        if only_shapes_are_asked() and current_scope() is None:
            with outside_of_shapes(), computing():
                return build(*args, **kwargs)
        return build(*args, **kwargs)

    return built


def _with_weights(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``Layer.__init__``."""

    @functools.wraps(original)
    def init(self: Any, *, weights: Any = None, **kwargs: Any) -> None:
        original(self, **kwargs)
        if weights is not None:
            self.build = _then_setting(self, self.build, weights)

    return init


def _then_setting(layer: Any, build: Callable[..., None], weights: Any) -> Callable[..., None]:
    @functools.wraps(build)
    def built(*args: Any, **kwargs: Any) -> None:
        build(*args, **kwargs)
        layer.set_weights(weights)

    return built


def _by_call(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap what builds a model that is called: Keras has called it on shapes before ``build``."""

    @functools.wraps(original)
    def maybe_build(self: Any, *args: Any, **kwargs: Any) -> None:
        token = _CALLED.set(self)
        try:
            original(self, *args, **kwargs)
        finally:
            _CALLED.reset(token)

    return maybe_build


def _of_layers(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``Model.build`` where it is the one that all layers have, and only notes that the model is built.

    Source: keras/src/engine/training.py of Keras 2.15, ``Model.build``.
    """

    @functools.wraps(original)  # Keras marks it as no class' own
    def build(self: Any, input_shape: Any = None) -> None:
        if input_shape is not None and not self.built and _CALLED.get() is not self:
            inputs = keras.tree.map_shape_structure(keras.KerasTensor, _shapes(input_shape))
            keras.src.backend.compute_output_spec(self.call, inputs, **_needed(self.call))
        original(self, input_shape)

    return build


def _needed(call: Callable[..., Any]) -> dict[str, Any]:
    """Return what ``call`` needs beside its inputs: it may ask for ``training``, and for nothing else.

    Raises:
        ValueError: It asks for more.
    """
    others = [*inspect.signature(call).parameters.values()][1:]
    needed = [
        each.name
        for each in others
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    if unknown := [name for name in needed if name != "training"]:
        raise ValueError(
            "Currently, you cannot build your model if it has positional or keyword arguments that are not "
            f"inputs to the model, but are required for its `call()` method: {', '.join(unknown)}. Call it "
            "on real data with all of them instead."
        )
    return dict.fromkeys(needed, False)


def _shapes(shape: Any) -> Any:
    """Return shapes as tuples, in the structure that they are in."""
    if isinstance(shape, dict):
        return {name: _shapes(each) for name, each in shape.items()}
    if not isinstance(shape, list | tuple | TensorShape):
        raise ValueError(
            "Specified input shape is not one of the valid types: it must be the shape of a batch, as a "
            f"tuple, or a list or dict of shapes, got {shape!r}."
        )
    if all(isinstance(size, Integral | None) for size in shape):  # also NumPy's, such as of a product
        return tuple(None if size is None else int(size) for size in shape)
    return [_shapes(each) for each in shape]


def patch() -> None:
    """Let layers be built eagerly, and be saved and made again without Keras' constructor."""
    wrap(keras.Layer, "__new__", _creating)
    wrap(keras.Layer, "__init__", _with_weights)
    change(keras.Model, "build", _of_layers(keras.Layer.build))
    wrap(keras.Model, "_maybe_build", _by_call)
    change(keras.Layer, "built", False)
    change(keras.Layer, "_build_shapes_dict", None)
