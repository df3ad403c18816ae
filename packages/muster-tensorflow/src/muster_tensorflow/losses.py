"""``tf.losses``: the same as ``tf.keras.losses``. TensorFlow 1's functions are in ``tf.compat.v1.losses``."""

from typing import Any

from muster_tensorflow.keras import losses as _losses
from muster_tensorflow.keras.losses import Reduction as Reduction
from muster_tensorflow.names._names import passed_on as _passed_on


def __getattr__(name: str) -> Any:
    return _passed_on(_losses, __name__, name)
