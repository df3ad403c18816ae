"""``tf.compat.v1.keras.initializers``: those of ``tf.keras``, which also take ``dtype``."""

from typing import Any

from muster_tensorflow import keras as _keras
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v1.variables._initializers import KerasRandomNormal as RandomNormal
from muster_tensorflow.programs.v1.variables._initializers import KerasRandomUniform as RandomUniform
from muster_tensorflow.programs.v1.variables._initializers import KerasTruncatedNormal as TruncatedNormal
from muster_tensorflow.programs.v1.variables._initializers import constant_initializer as Constant
from muster_tensorflow.programs.v1.variables._initializers import glorot_normal_initializer as glorot_normal
from muster_tensorflow.programs.v1.variables._initializers import glorot_uniform_initializer as glorot_uniform
from muster_tensorflow.programs.v1.variables._initializers import identity_initializer as Identity
from muster_tensorflow.programs.v1.variables._initializers import ones_initializer as Ones
from muster_tensorflow.programs.v1.variables._initializers import orthogonal_initializer as Orthogonal
from muster_tensorflow.programs.v1.variables._initializers import (
    variance_scaling_initializer as VarianceScaling,
)
from muster_tensorflow.programs.v1.variables._initializers import zeros_initializer as Zeros

constant, identity, ones, orthogonal, zeros = Constant, Identity, Ones, Orthogonal, Zeros
normal = random_normal = RandomNormal
uniform = random_uniform = RandomUniform
truncated_normal = TruncatedNormal


def __getattr__(name: str) -> Any:
    return _passed_on(_keras.initializers, __name__, name)
