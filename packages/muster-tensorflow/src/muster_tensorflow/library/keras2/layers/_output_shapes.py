"""Output shapes of layers as in Keras 2.

Results of ``compute_output_shape`` have the methods of `TensorShape`, such as ``as_list()``: wrappers of
programs call it of the layers in them. What is returned here is a tuple still, as Keras wants.

A program's own layer is called for its outputs in a functional model, also if it has
``compute_output_shape``. Keras 3 asks this method alone, so that layers which ``call`` uses for the first
time are not built, and a model that is loaded lacks their variables. Here it asks where ``call`` cannot be
traced.

Source: keras/src/engine/base_layer.py of Keras 2.15, ``_infer_output_signature``.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

from muster import keras
from muster_tensorflow.library.ops.arrays._array_shape import ArrayShape
from muster_tensorflow.patches import change, wrap


def _with_methods(shape: Any) -> Any:
    """Return a shape, or a list of shapes, with TensorFlow's methods."""
    if type(shape) not in (list, tuple):
        return shape
    if all(size is None or isinstance(size, int) for size in shape):
        return ArrayShape(shape)
    return type(shape)(map(_with_methods, shape))


def _shaping(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def compute_output_shape(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _with_methods(original(self, *args, **kwargs))

    return compute_output_shape


def _calling(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Layer.compute_output_spec``."""

    @functools.wraps(original)
    def compute_output_spec(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _says_its_shape(type(self)):
            try:
                return keras.Operation.compute_output_spec(self, *args, **kwargs)
            except Exception:  # whatever it is, it comes again when the model is called
                pass
        return original(self, *args, **kwargs)

    return compute_output_spec


def _says_its_shape(kind: type) -> bool:
    """Return whether a class of layers is of a program, which has written ``compute_output_shape``."""
    owner = next(each for each in kind.__mro__ if "compute_output_shape" in vars(each))
    return not owner.__module__.startswith(("keras.", "muster"))


def _kinds(kind: Any) -> Iterator[Any]:
    yield kind
    for each in kind.__subclasses__():
        yield from _kinds(each)


def patch() -> None:
    """Let Keras' layers shape and make outputs as in Keras 2."""
    for kind in set(_kinds(keras.layers.Layer)):
        if (original := vars(kind).get("compute_output_shape")) is not None:
            change(kind, "compute_output_shape", _shaping(original))
    wrap(keras.layers.Layer, "compute_output_spec", _calling)
