"""Allow ``/`` in names of layers and models, as in ``Dense(4, name="encoder/ffn")``.

Keras 3 refuses them, since it joins names by ``/`` into paths. Such a name becomes one with ``_`` in place of
each ``/``; ``get_layer`` finds the layer by either.
"""

import functools
from collections.abc import Callable
from typing import Any

from muster import keras
from muster_tensorflow.patches import wrap


def _naming(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``Operation.__init__``, which layers and models call."""

    @functools.wraps(original)
    def init(self: Any, name: Any = None) -> None:
        original(self, name=_without_slashes(name))

    return init


def _finding(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``get_layer``."""

    @functools.wraps(original)
    def get_layer(self: Any, name: Any = None, index: int | None = None) -> Any:
        return original(self, _without_slashes(name), index)

    return get_layer


def _without_slashes(name: Any) -> Any:
    return name.replace("/", "_") if isinstance(name, str) else name


def patch() -> None:
    """Let names have a ``/``."""
    wrap(keras.Operation, "__init__", _naming)
    wrap(keras.Model, "get_layer", _finding)
