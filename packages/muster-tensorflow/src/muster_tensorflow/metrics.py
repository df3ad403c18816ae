"""``tf.metrics``: Keras' classes. TensorFlow 1's functions are in ``tf.compat.v1.metrics``."""

from typing import Any

from muster_tensorflow.keras import metrics as _metrics
from muster_tensorflow.names._names import passed_on as _passed_on


def __getattr__(name: str) -> Any:
    return _passed_on(_metrics, __name__, name)
