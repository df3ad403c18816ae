"""Save all variables of a program's layers, also those that a subclass of `Dense` adds.

Keras 3's `Dense`, `EinsumDense`, `Embedding` and convolutions save and load their kernel and bias alone: what
a class derived from them adds would be lost, and a ``load_own_variables`` that goes through ``weights``
would find others under its numbers. In Keras 2 all layers save all weights, in their order. And a model that
has not been built saves the weights that it has, where Keras 3 refuses.

Source: keras/engine/base_layer.py of Keras 2.15, ``save_own_variables``; keras/engine/training.py,
``_assert_weights_created``.
"""

import functools
from collections.abc import Callable
from typing import Any

from muster import keras
from muster_tensorflow.patches import wrap

_OF_KERAS = ("_kernel", "kernel", "bias", "_embeddings", "embeddings")


def _all(original: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """Wrap ``save_own_variables`` or ``load_own_variables`` of one of Keras' layers."""
    of_all = getattr(keras.Layer, original.__name__)

    @functools.wraps(original)
    def own_variables(self: Any, store: Any) -> None:
        (of_all if _has_others(self) else original)(self, store)

    return own_variables


def _has_others(layer: Any) -> bool:
    """Return whether a layer of a program has variables of its own, and none that Keras writes otherwise."""
    if type(layer).__module__.startswith("keras.") or layer.quantization_mode is not None:
        return False
    known = {id(getattr(layer, name, None)) for name in _OF_KERAS}
    variables = [*layer._trainable_variables, *layer._non_trainable_variables]
    return not getattr(layer, "lora_enabled", False) and any(id(each) not in known for each in variables)


def _before_it_is_built(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Model.save_weights``."""

    @functools.wraps(original)
    def save_weights(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.built or "build" in vars(type(self)):
            return original(self, *args, **kwargs)
        self.built = True
        try:
            return original(self, *args, **kwargs)
        finally:
            self.built = False

    return save_weights


def patch() -> None:
    """Let layers save all of their variables, and models what they have."""
    layers = keras.layers
    for cls in (layers.Dense, layers.EinsumDense, layers.Embedding, layers.Conv2D.__base__):
        wrap(cls, "save_own_variables", _all)
        wrap(cls, "load_own_variables", _all)
    wrap(keras.Model, "save_weights", _before_it_is_built)
