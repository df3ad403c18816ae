"""``tf.keras.wrappers``: Keras 3's; names of ``scikit_learn`` say what to use."""

from typing import Any

from muster._keras import keras
from muster.compat._names import Names as _Names
from muster.compat._names import passed_on as _passed_on

scikit_learn = _Names("tf.keras.wrappers.scikit_learn")


def __getattr__(name: str) -> Any:
    return _passed_on(keras.wrappers, __name__, name, "scikit_learn")
