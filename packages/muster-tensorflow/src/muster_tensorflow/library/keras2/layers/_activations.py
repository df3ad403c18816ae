"""Keras 2's ``hard_sigmoid``, also as the default gate activation of ConvLSTM layers.

Keras 3 has another function of the name, of a slope of one sixth, and the sigmoid for the gates. A model that
Keras 2 trained has other results with them. ``keras.activations.hard_sigmoid`` itself stays Keras 3's.
Source: keras/src/activations.py and layers/rnn/base_conv_lstm.py of Keras 2.15.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from muster import keras
from muster_tensorflow.patches import change_item, wrap
from muster_tensorflow.programs.v2.backend._backend_parameters import hard_sigmoid

_GATES = "recurrent_activation"


def _of_hard_gates(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``__init__`` of a ConvLSTM layer: gates take ``hard_sigmoid`` where a program says nothing."""
    signature = inspect.signature(original)
    own = [
        each.replace(default=hard_sigmoid.__name__) if each.name == _GATES else each
        for each in signature.parameters.values()
    ]

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if _GATES not in signature.bind(self, *args, **kwargs).arguments:
            kwargs[_GATES] = hard_sigmoid.__name__
        original(self, *args, **kwargs)

    init.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]  # Keras reads it
    return init


def patch() -> None:
    """Let the name mean Keras 2's function."""
    name = hard_sigmoid.__name__
    # Where keras.activations.get looks, and where deserialize does.
    change_item(keras.src.activations, "ALL_OBJECTS_DICT", name, hard_sigmoid)
    change_item(keras.src.saving.object_registration, "GLOBAL_CUSTOM_OBJECTS", name, hard_sigmoid)
    for kind in ("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"):
        layer = getattr(keras.layers, kind)
        wrap(layer, "__init__", _of_hard_gates)
