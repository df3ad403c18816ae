"""``tf.keras.regularizers``: Keras 3's, and Keras 2's defaults of ``l1_l2``."""

from typing import Any

from muster import keras
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v2.keras._keras_parameters import l1_l2 as l1_l2


def __getattr__(name: str) -> Any:
    return _passed_on(keras.regularizers, __name__, name, "l1_l2")
