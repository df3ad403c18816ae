"""``tf.keras.layers``: those of Keras 3; lookups that need no TensorFlow."""

from typing import Any

from muster._keras import keras
from muster.compat._lookups import IntegerLookup as IntegerLookup
from muster.compat._lookups import StringLookup as StringLookup


def __getattr__(name: str) -> Any:
    return getattr(keras.layers, name)
