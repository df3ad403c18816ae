"""``tf.keras.optimizers``: Keras 3's, ``experimental`` and ``legacy``."""

from typing import Any

from muster import keras
from muster_tensorflow.keras.optimizers import experimental as experimental
from muster_tensorflow.keras.optimizers import legacy as legacy
from muster_tensorflow.names._names import passed_on as _passed_on


def __getattr__(name: str) -> Any:
    return _passed_on(keras.optimizers, __name__, name, "experimental", "legacy")
