"""``tf.keras.layers``: Keras 3's, with lookups that do not need TensorFlow."""

from typing import Any

from muster._keras import keras
from muster.compat._names import passed_on as _passed_on
from muster.compat.v2._lookups import IntegerLookup as IntegerLookup
from muster.compat.v2._lookups import StringLookup as StringLookup
from muster.feature_column import DenseFeatures as DenseFeatures


def __getattr__(name: str) -> Any:
    return _passed_on(keras.layers, __name__, name, "DenseFeatures", "IntegerLookup", "StringLookup")
