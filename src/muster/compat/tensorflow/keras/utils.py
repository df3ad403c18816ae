"""``tf.keras.utils``: Keras 3's, and what Keras 2 has for training in several processes."""

from typing import Any

from muster._keras import keras
from muster.compat._names import Names as _Names
from muster.compat._names import passed_on as _passed_on
from muster.distribute import DatasetCreator as _DatasetCreator
from muster.distribute import SidecarEvaluator as SidecarEvaluator

experimental = _Names("tf.keras.utils.experimental", DatasetCreator=_DatasetCreator)


def __getattr__(name: str) -> Any:
    return _passed_on(keras.utils, __name__, name, "SidecarEvaluator", "experimental")
