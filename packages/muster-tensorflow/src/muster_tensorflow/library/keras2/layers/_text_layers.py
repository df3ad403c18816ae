"""Keras' names that need TensorFlow, as muster has them: layers of text and saved models, and datasets.

``import keras`` beside ``import muster_tensorflow`` gives the same as ``tf.keras``: so
``keras.layers.TextVectorization`` computes on the host, and ``keras.utils.image_dataset_from_directory``
returns a dataset of muster's, or with ``format="grain"`` what Keras' own does.
"""

import functools
from collections.abc import Callable
from typing import Any

from muster import keras
from muster_tensorflow.patches import change
from muster_tensorflow.programs.v2.data._folders import (
    image_dataset_from_directory,
    text_dataset_from_directory,
)
from muster_tensorflow.programs.v2.data._time_series import timeseries_dataset_from_array
from muster_tensorflow.programs.v2.layers._hashing import HashedCrossing, Hashing
from muster_tensorflow.programs.v2.layers._lookups import IntegerLookup, StringLookup
from muster_tensorflow.programs.v2.layers._text_vectorization import TextVectorization
from muster_tensorflow.programs.v2.saved._saved_layer import TFSMLayer

_FUNCTIONS = (timeseries_dataset_from_array, image_dataset_from_directory, text_dataset_from_directory)


def _in_format(ours: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `ours` with an argument ``format``, which ``original`` gets if it is not TensorFlow's."""

    @functools.wraps(ours)
    def make(*args: Any, format: str = "tf", **kwargs: Any) -> Any:
        return ours(*args, **kwargs) if format == "tf" else original(*args, format=format, **kwargs)

    return make


def patch() -> None:
    """Give Keras' modules the layers and functions that do not need TensorFlow."""
    for layer in (HashedCrossing, Hashing, IntegerLookup, StringLookup, TextVectorization, TFSMLayer):
        change(keras.layers, layer.__name__, layer)
    for module in (keras.utils, keras.preprocessing):
        for function in _FUNCTIONS:
            name = function.__name__
            change(module, name, _in_format(function, getattr(module, name)))
