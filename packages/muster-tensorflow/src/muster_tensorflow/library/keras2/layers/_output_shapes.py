"""Give the results of layers' ``compute_output_shape`` the methods of `TensorShape`, such as ``as_list()``.

Wrappers of programs call it of the layers in them. What is returned here is a tuple still, as Keras wants.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

from muster import keras
from muster_tensorflow.library.ops.arrays._array_shape import ArrayShape
from muster_tensorflow.patches import change


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


def _kinds(kind: Any) -> Iterator[Any]:
    yield kind
    for each in kind.__subclasses__():
        yield from _kinds(each)


def patch() -> None:
    """Give the output shapes of Keras' layers TensorFlow's methods."""
    for kind in set(_kinds(keras.layers.Layer)):
        if (original := vars(kind).get("compute_output_shape")) is not None:
            change(kind, "compute_output_shape", _shaping(original))
