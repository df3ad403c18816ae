"""``tf.keras.models``: Keras 3's, and functions of Keras 2."""

from typing import Any

from muster import keras
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v2.keras._older_functions import model_from_config as model_from_config
from muster_tensorflow.programs.v2.keras._older_functions import model_from_yaml as model_from_yaml


def __getattr__(name: str) -> Any:
    return _passed_on(keras.models, __name__, name, "model_from_config", "model_from_yaml")
