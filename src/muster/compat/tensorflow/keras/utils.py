"""``tf.keras.utils``: Keras 3's, and what Keras 2 has for training in several processes."""

from typing import Any

from muster._keras import keras
from muster.compat._names import passed_on as _passed_on
from muster.distribute import SidecarEvaluator as SidecarEvaluator


def __getattr__(name: str) -> Any:
    return _passed_on(keras.utils, name, "SidecarEvaluator")
