"""Let ``Bidirectional`` wrap a program's own recurrent layers and cells, which are not registered with Keras.

It makes its layers anew of their configs. In Keras 2 it passes the classes of cells on.

Source: keras/src/layers/rnn/bidirectional.py of Keras 2.15, ``Bidirectional._recreate_layer_from_config``.
"""

import functools
from collections.abc import Callable
from typing import Any

from muster import keras
from muster_tensorflow.patches import wrap


def _knowing_classes(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``Bidirectional.__init__``."""

    @functools.wraps(original)
    def init(self: Any, layer: Any, *args: Any, **kwargs: Any) -> None:
        cell = getattr(layer, "cell", layer)
        kinds = {type(each) for each in (layer, cell, *getattr(cell, "cells", ()))}
        own = {kind.__name__: kind for kind in kinds if not kind.__module__.startswith("keras.")}
        with keras.saving.custom_object_scope(own):
            original(self, layer, *args, **kwargs)

    return init


def patch() -> None:
    """Let ``Bidirectional`` know the classes of programs."""
    kind = keras.layers.Bidirectional
    wrap(kind, "__init__", _knowing_classes)
