"""``tf.keras.mixed_precision``: Keras 3's, and ``experimental`` of TensorFlow 2.1 to 2.9."""

from typing import Any

from muster import keras
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v2.keras._loss_scale import (
    experimental_loss_scale_optimizer as _loss_scale_optimizer,
)

experimental = _Names(
    "tf.keras.mixed_precision.experimental",
    Policy=keras.mixed_precision.Policy,
    set_policy=keras.mixed_precision.set_global_policy,
    global_policy=keras.mixed_precision.global_policy,
    LossScaleOptimizer=_loss_scale_optimizer,
)


def __getattr__(name: str) -> Any:
    return _passed_on(keras.mixed_precision, __name__, name, "experimental")
