"""``tf.compat.v1.keras.metrics``: the names of ``tf.keras.metrics``, and older ones."""

from typing import Any

from muster_tensorflow.compat.v1.keras.losses import cosine as cosine
from muster_tensorflow.compat.v1.keras.losses import cosine_proximity as cosine_proximity
from muster_tensorflow.keras import metrics as _metrics
from muster_tensorflow.names._names import passed_on as _passed_on


def __getattr__(name: str) -> Any:
    return _passed_on(_metrics, __name__, name, "cosine", "cosine_proximity")
