"""``tf.keras.layers``: those of Keras 3; lookups that need no TensorFlow."""

from typing import Any

from muster._keras import keras
from muster.compat._names import passed_on as _passed_on
from muster.compat.v2._lookups import IntegerLookup as IntegerLookup
from muster.compat.v2._lookups import StringLookup as StringLookup


def __getattr__(name: str) -> Any:
    return _passed_on(keras.layers, name, "IntegerLookup", "StringLookup")
