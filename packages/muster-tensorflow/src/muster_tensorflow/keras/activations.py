"""``tf.keras.activations``: Keras 3's, but for two that Keras 2 has otherwise."""

from typing import Any

from muster import keras
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v2.backend._backend_parameters import hard_sigmoid as hard_sigmoid
from muster_tensorflow.programs.v2.keras._keras_parameters import relu as relu


def __getattr__(name: str) -> Any:
    return _passed_on(keras.activations, __name__, name, "hard_sigmoid", "relu")
