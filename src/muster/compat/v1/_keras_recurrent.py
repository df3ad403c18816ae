"""Keras' recurrent layers and cells with the defaults of TensorFlow 1.

Source: keras/layers/rnn/gru_v1.py and lstm_v1.py of Keras 2.15.
"""

from typing import Any

from muster._keras import keras

_serializable = keras.saving.register_keras_serializable("muster_v1")
_ACTIVATIONS = {"activation": "tanh", "recurrent_activation": "hard_sigmoid"}


@_serializable
class LSTM(keras.layers.LSTM):  # type: ignore[misc]  # keras is untyped
    """``keras.layers.LSTM``, whose gates are a ``hard_sigmoid`` by default."""

    def __init__(self, units: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(units, **_by_name(args, kwargs))


@_serializable
class LSTMCell(keras.layers.LSTMCell):  # type: ignore[misc]  # keras is untyped
    """``keras.layers.LSTMCell``, whose gates are a ``hard_sigmoid`` by default."""

    def __init__(self, units: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(units, **_by_name(args, kwargs))


@_serializable
class GRU(keras.layers.GRU):  # type: ignore[misc]  # keras is untyped
    """``keras.layers.GRU`` with ``hard_sigmoid`` gates, and ``reset_after=False``, by default."""

    def __init__(self, units: int, *args: Any, reset_after: bool = False, **kwargs: Any) -> None:
        super().__init__(units, reset_after=reset_after, **_by_name(args, kwargs))


@_serializable
class GRUCell(keras.layers.GRUCell):  # type: ignore[misc]  # keras is untyped
    """``keras.layers.GRUCell`` with ``hard_sigmoid`` gates, and ``reset_after=False``, by default."""

    def __init__(self, units: int, *args: Any, reset_after: bool = False, **kwargs: Any) -> None:
        super().__init__(units, reset_after=reset_after, **_by_name(args, kwargs))


def _by_name(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments after ``units``, of which two or three are sometimes given by position."""
    return _ACTIVATIONS | dict(zip((*_ACTIVATIONS, "use_bias"), args, strict=False)) | kwargs
