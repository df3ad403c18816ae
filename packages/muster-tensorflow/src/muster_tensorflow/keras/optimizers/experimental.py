"""``tf.keras.optimizers.experimental``: names of ``tf.keras.optimizers`` in TensorFlow 2.9 and 2.10."""

from typing import Any

from muster import keras
from muster_tensorflow.names._names import passed_on as _passed_on


def __getattr__(name: str) -> Any:
    return _passed_on(keras.optimizers, __name__, name)
