"""Convolutions of inputs with several axes of batches, such as the frames of videos.

Keras 3 takes one such axis. Source: keras/src/layers/convolutional/base_conv.py of Keras 2.15, ``Conv``.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from muster import keras
from muster_tensorflow.patches import wrap


def _split(layer: Any, shape: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the sizes of the batches' axes, and those of one example."""
    count = max(len(shape) - layer.rank - 1, 1)
    return tuple(shape[:count]), tuple(shape[count:])


def _building(original: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Wrap ``build``, which looks for the channels of an example."""

    @functools.wraps(original)
    def build(self: Any, input_shape: Any) -> None:
        batch, example = _split(self, input_shape)
        original(self, input_shape if len(batch) == 1 else (None, *example))

    return build


def _convolving(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Wrap ``call``: the batches are one, and then as they were."""

    @functools.wraps(original)
    def call(self: Any, inputs: Any) -> Any:
        batch, example = _split(self, inputs.shape)
        if len(batch) == 1:
            return original(self, inputs)
        found = original(self, keras.ops.reshape(inputs, (-1, *example)))
        return keras.ops.reshape(found, (*batch, *found.shape[1:]))

    return call


def _shaping(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Wrap ``compute_output_shape``."""

    @functools.wraps(original)
    def compute_output_shape(self: Any, input_shape: Any) -> Any:
        batch, example = _split(self, input_shape)
        return (*batch, *original(self, (None, *example))[1:])

    return compute_output_shape


def patch() -> None:
    """Let layers of convolutions take such inputs."""
    base = keras.layers.Conv2D.__mro__[1]
    wrap(base, "build", _building)
    wrap(base, "compute_output_shape", _shaping)
    for layer in (base, keras.layers.Conv1D):  # which pads in its own call
        wrap(layer, "call", _convolving)
