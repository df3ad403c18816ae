"""Keras' recurrent layers and cells with the defaults of TensorFlow 1.

Source: keras/layers/rnn/gru_v1.py and lstm_v1.py of Keras 2.15.
"""

from typing import Any

from muster import keras

_serializable = keras.saving.register_keras_serializable("muster_v1")
_ACTIVATIONS = {"activation": "tanh", "recurrent_activation": "hard_sigmoid"}


class _HardSigmoids:
    """Layers and cells whose gates are a ``hard_sigmoid`` by default."""

    def __init__(self, units: int, *args: Any, **kwargs: Any) -> None:
        # Those after the units may be given by position, the activations first.
        for name in [*_ACTIVATIONS][len(args) :]:
            kwargs.setdefault(name, _ACTIVATIONS[name])
        super().__init__(units, *args, **kwargs)  # type: ignore[call-arg]


class _ResetBefore(_HardSigmoids):
    """Those whose reset gate is applied before the multiplication by default."""

    def __init__(self, units: int, *args: Any, reset_after: bool = False, **kwargs: Any) -> None:
        super().__init__(units, *args, reset_after=reset_after, **kwargs)


@_serializable
class LSTM(_HardSigmoids, keras.layers.LSTM):  # type: ignore[misc]  # keras is untyped
    """``keras.layers.LSTM`` with ``hard_sigmoid`` gates by default."""


@_serializable
class LSTMCell(_HardSigmoids, keras.layers.LSTMCell):  # type: ignore[misc]  # keras is untyped
    """``keras.layers.LSTMCell`` with ``hard_sigmoid`` gates by default."""


@_serializable
class GRU(_ResetBefore, keras.layers.GRU):  # type: ignore[misc]  # keras is untyped
    """``keras.layers.GRU`` with ``hard_sigmoid`` gates, and ``reset_after=False``, by default."""


@_serializable
class GRUCell(_ResetBefore, keras.layers.GRUCell):  # type: ignore[misc]  # keras is untyped
    """``keras.layers.GRUCell`` with ``hard_sigmoid`` gates, and ``reset_after=False``, by default."""
