"""``tf.keras.constraints``: Keras 3's, and one of Keras 2."""

from typing import Any

from muster import keras
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v2.layers._older_layers import RadialConstraint as RadialConstraint

radial_constraint = RadialConstraint


def __getattr__(name: str) -> Any:
    return _passed_on(keras.constraints, __name__, name, "RadialConstraint", "radial_constraint")
