"""``tf.compat.v1.keras``: the names of ``tf.keras``, and helpers for TensorFlow 1's model code."""

from typing import Any

from muster_tensorflow import keras as _keras
from muster_tensorflow.compat.v1.keras import initializers as initializers
from muster_tensorflow.compat.v1.keras import layers as layers
from muster_tensorflow.compat.v1.keras import losses as losses
from muster_tensorflow.compat.v1.keras import metrics as metrics
from muster_tensorflow.compat.v1.keras import models as models
from muster_tensorflow.compat.v1.keras import optimizers as optimizers
from muster_tensorflow.compat.v1.keras import utils as utils
from muster_tensorflow.names._names import passed_on as _passed_on


def __getattr__(name: str) -> Any:
    return _passed_on(_keras, __name__, name)
