"""``tf.keras``: Keras 3, with the names that it dropped and Estimator programs use."""

from typing import Any

from muster._keras import keras
from muster.compat.tensorflow.keras import losses as losses


def __getattr__(name: str) -> Any:
    return getattr(keras, name)
