"""Keep the states of stateful recurrent layers between the batches of `fit`, `evaluate` and `predict`.

Keras hides them from the variables of a layer, so that on JAX its compiled steps have no place for them: each
batch would begin with zeros. They are no weights, and no file has them.

Source: keras/src/layers/rnn/base_rnn.py of Keras 2.15, ``RNN.states``.
"""

from typing import Any

from muster import keras
from muster_tensorflow.patches import wrap


def _with_states(original: property) -> property:
    """Wrap ``RNN.variables``."""

    def variables(self: Any) -> list[Any]:
        found: list[Any] = original.__get__(self)
        if not self.stateful or self.states is None:
            return found
        known = {id(each) for each in found}
        return [*found, *(each for each in keras.tree.flatten(self.states) if id(each) not in known)]

    return property(variables, doc=original.__doc__)


def patch() -> None:
    """Let recurrent layers' variables have their states."""
    wrap(keras.layers.RNN, "variables", _with_states)
