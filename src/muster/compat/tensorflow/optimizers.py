"""``tf.optimizers``: those of Keras. The ones of TensorFlow 1 are in ``tf.compat.v1.train``."""

from typing import Any

from muster._keras import keras


def __getattr__(name: str) -> Any:
    return getattr(keras.optimizers, name)
