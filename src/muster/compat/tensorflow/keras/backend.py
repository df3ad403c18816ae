"""``tf.keras.backend``: Keras 3's; operations are in ``keras.ops``."""

from typing import Any

from muster._keras import keras
from muster.compat._names import passed_on as _passed_on


def __getattr__(name: str) -> Any:
    return _passed_on(keras.backend, __name__, name)
