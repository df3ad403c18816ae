"""``tf.compat.v1.initializers``: TensorFlow 1's arguments and defaults."""

from typing import Any

from muster import keras as _keras
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v1._step import initializer_op as global_variables
from muster_tensorflow.programs.v1._step import initializer_op as local_variables
from muster_tensorflow.programs.v1._step import initializer_op as tables_initializer
from muster_tensorflow.programs.v1._step import initializer_op as variables
from muster_tensorflow.programs.v1.variables._initializers import constant_initializer as constant
from muster_tensorflow.programs.v1.variables._initializers import glorot_normal_initializer as glorot_normal
from muster_tensorflow.programs.v1.variables._initializers import glorot_uniform_initializer as glorot_uniform
from muster_tensorflow.programs.v1.variables._initializers import identity_initializer as identity
from muster_tensorflow.programs.v1.variables._initializers import ones_initializer as ones
from muster_tensorflow.programs.v1.variables._initializers import orthogonal_initializer as orthogonal
from muster_tensorflow.programs.v1.variables._initializers import random_normal_initializer as random_normal
from muster_tensorflow.programs.v1.variables._initializers import random_uniform_initializer as random_uniform
from muster_tensorflow.programs.v1.variables._initializers import (
    truncated_normal_initializer as truncated_normal,
)
from muster_tensorflow.programs.v1.variables._initializers import (
    uniform_unit_scaling_initializer as uniform_unit_scaling,
)
from muster_tensorflow.programs.v1.variables._initializers import (
    variance_scaling_initializer as variance_scaling,
)
from muster_tensorflow.programs.v1.variables._initializers import zeros_initializer as zeros


def __getattr__(name: str) -> Any:
    return _passed_on(_keras.initializers, __name__, name)
