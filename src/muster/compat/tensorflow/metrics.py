"""``tf.metrics``: Keras' classes. TensorFlow 1's functions are in ``tf.compat.v1.metrics``."""

from typing import Any

from muster._keras import keras
from muster.compat._names import passed_on as _passed_on


def __getattr__(name: str) -> Any:
    return _passed_on(keras.metrics, __name__, name)
