"""Keras 2's ``dynamic=True``: run models with such a layer eagerly.

Source: keras/engine/training.py of Keras 2.15, ``Model.run_eagerly``, and base_layer.py, ``Layer.dynamic``.
"""

import functools
from collections.abc import Callable
from typing import Any

from muster import keras
from muster_tensorflow.patches import wrap


def _taking(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``Layer.__init__``."""

    @functools.wraps(original)
    def init(self: Any, *, dynamic: bool = False, **kwargs: Any) -> None:  # Keras cannot tell *args
        original(self, **kwargs)
        self._is_dynamic = dynamic

    return init


def _eagerly(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap ``Model.compile``: a model that has such a layer, or is one, runs eagerly."""

    @functools.wraps(original)
    def compile(self: Any, *args: Any, **kwargs: Any) -> None:
        if any(getattr(layer, "_is_dynamic", False) for layer in self._flatten_layers()):
            if kwargs.get("run_eagerly") is False:
                raise ValueError(
                    "Your model contains layers that can only be successfully run in eager execution "
                    "(layers constructed with `dynamic=True`). You cannot set `run_eagerly=False`."
                )
            kwargs["run_eagerly"] = True
        original(self, *args, **kwargs)

    return compile


def patch() -> None:
    """Let layers be dynamic."""
    wrap(keras.layers.Layer, "__init__", _taking)
    owner = next(each for each in keras.Model.__mro__ if "compile" in vars(each))
    wrap(owner, "compile", _eagerly)
