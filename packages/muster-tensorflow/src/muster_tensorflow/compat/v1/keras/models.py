"""``tf.compat.v1.keras.models``: the names of ``tf.keras.models``, and models of columns or inputs."""

from typing import Any

from muster_tensorflow.keras import models as _models
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v2.keras._premade_models import LinearModel as LinearModel
from muster_tensorflow.programs.v2.keras._premade_models import WideDeepModel as WideDeepModel


def __getattr__(name: str) -> Any:
    return _passed_on(_models, __name__, name, "LinearModel", "WideDeepModel")
