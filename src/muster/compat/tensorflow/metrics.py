"""``tf.metrics``: the classes of Keras. The pairs of TensorFlow 1 are in ``tf.compat.v1.metrics``."""

from typing import Any

from muster._keras import keras


def __getattr__(name: str) -> Any:
    return getattr(keras.metrics, name)
