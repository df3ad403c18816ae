"""Find the trainable variables that layers assign when called.

Keras' steps on JAX take what the optimizer makes of trainable variables, and drop what layers assigned to
them before, such as the masked kernel of a PixelCNN. On TensorFlow such assignments stay.
"""

from collections.abc import Callable
from typing import Any

from muster._keras import keras
from muster.keras_hooks import wrap
from muster.program.variables._by_identity import ByIdentity
from muster.program.variables.keras_internals import is_stateless, layer_being_called, layers_within

# Keras' layer that does so, though not yet when a functional model is made.
_WHILE_TRAINING = keras.layers.SpectralNormalization
_ASSIGNED: ByIdentity[bool] = ByIdentity()


def layers_assign_weights(model: Any) -> bool:
    """Return whether layers were seen to assign to trainable variables of a model, or are known to."""
    if any(isinstance(layer, _WHILE_TRAINING) for layer in layers_within(model)):
        return True
    return any(variable in _ASSIGNED for variable in model.trainable_variables)


def _noted(original: Callable[..., Any]) -> Callable[..., Any]:
    def assign(self: Any, value: Any) -> Any:
        if self.trainable and is_stateless() and layer_being_called() is not None:
            _ASSIGNED[self] = True
        return original(self, value)

    return assign


wrap(keras.Variable, "assign", _noted)
