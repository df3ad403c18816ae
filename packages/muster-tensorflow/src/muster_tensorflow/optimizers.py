"""``tf.optimizers``: what ``tf.keras.optimizers`` has. TensorFlow 1's are in ``tf.compat.v1.train``."""

from typing import Any

from muster_tensorflow.keras import optimizers as _optimizers
from muster_tensorflow.names._names import passed_on as _passed_on


def __getattr__(name: str) -> Any:
    return _passed_on(_optimizers, __name__, name)
