"""Keras 2's ways for a layer to say what a sequential model takes: ``batch_input_shape``, ``input_length``.

The first layer of ``Sequential([LSTM(4, stateful=True, batch_input_shape=(8, None, 3))])`` gives the size of
the batch too; embeddings and recurrent layers have ``input_length``. Of these Keras 3 has ``input_shape``
alone, with a warning, and takes ``input_dim`` for that of a vector in recurrent layers too.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from muster import keras
from muster_tensorflow.patches import wrap


def _of_batches(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``Layer.__init__``."""

    @functools.wraps(original)
    def init(self: Any, *, batch_input_shape: Any = None, **kwargs: Any) -> None:
        if isinstance(self, keras.layers.RNN) and "input_shape" not in kwargs:
            length, dim = kwargs.pop("input_length", None), kwargs.pop("input_dim", None)
            if (length, dim) != (None, None):
                kwargs["input_shape"] = (length, dim)
        size, dim = kwargs.pop("batch_size", None), kwargs.pop("input_dim", None)
        shape = kwargs.pop("input_shape", None if dim is None else (dim,))
        original(self, **kwargs)
        if batch_input_shape is not None:
            self._batch_input_shape_arg = tuple(batch_input_shape)
        elif shape is not None:
            shape = (shape,) if isinstance(shape, int) else shape
            self._batch_input_shape_arg = (size, *shape)

    return init


def _of_lengths(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``Embedding.__init__``, which has ``input_length`` and says that it is not used."""

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        length = kwargs.pop("input_length", None)
        if length is not None and not {"input_shape", "batch_input_shape"} & kwargs.keys():
            kwargs["input_shape"] = tuple(length) if isinstance(length, list | tuple) else (length,)
        original(self, *args, **kwargs)

    init.__signature__ = inspect.signature(original)  # type: ignore[attr-defined]  # Keras reads it
    return init


def _adding(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``Sequential.add``, which makes an input of what the first layer says, of text for one of text."""

    @functools.wraps(original)
    def add(self: Any, layer: Any, rebuild: bool = True) -> None:
        shape = getattr(layer, "_batch_input_shape_arg", None)
        if shape is not None and not self._layers:
            dtype = "string" if layer.dtype == "string" else None
            original(self, keras.layers.InputLayer(batch_shape=shape, dtype=dtype), rebuild=False)
        original(self, layer, rebuild=rebuild)

    return add


def _building(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``Sequential.build``: a model that has an input keeps it, whatever shape comes."""

    @functools.wraps(original)
    def build(self: Any, input_shape: Any = None) -> None:
        first = self._layers[0] if self._layers else None
        original(self, first.batch_shape if isinstance(first, keras.layers.InputLayer) else input_shape)

    return build


def patch() -> None:
    """Let layers say what a model takes."""
    layers = keras.layers
    wrap(layers.Layer, "__init__", _of_batches)
    wrap(layers.Embedding, "__init__", _of_lengths)
    wrap(keras.Sequential, "add", _adding)
    wrap(keras.Sequential, "build", _building)
