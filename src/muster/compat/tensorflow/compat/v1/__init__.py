"""``tf.compat.v1``: TensorFlow 1's names, and through ``__getattr__`` all of TensorFlow 2's.

``import muster.compat.tensorflow.compat.v1 as tf`` is for programs that were written for TensorFlow 1.
"""

import sys
from typing import Any

from muster._keras import keras as _keras
from muster.compat._names import missing as _missing
from muster.compat.ops._math import ceil as ceil
from muster.compat.ops._math import floordiv as floordiv
from muster.compat.ops._math import is_finite as is_finite
from muster.compat.ops._math import is_inf as is_inf
from muster.compat.ops._math import is_nan as is_nan
from muster.compat.ops._math import log as log
from muster.compat.ops._math import log1p as log1p
from muster.compat.ops._math import reciprocal as reciprocal
from muster.compat.ops._math import rsqrt as rsqrt
from muster.compat.ops._math import squared_difference as squared_difference
from muster.compat.ops._random import set_seed as _set_seed
from muster.compat.tensorflow import summary as summary
from muster.compat.tensorflow import train as train
from muster.compat.tensorflow.compat.v1 import app as app
from muster.compat.tensorflow.compat.v1 import distribute as distribute
from muster.compat.tensorflow.compat.v1 import estimator as estimator
from muster.compat.tensorflow.compat.v1 import feature_column as feature_column
from muster.compat.tensorflow.compat.v1 import layers as layers
from muster.compat.tensorflow.compat.v1 import logging as logging
from muster.compat.tensorflow.compat.v1 import losses as losses
from muster.compat.tensorflow.compat.v1 import metrics as metrics
from muster.compat.v1._partitioners import fixed_size_partitioner as fixed_size_partitioner
from muster.compat.v1._partitioners import min_max_variable_partitioner as min_max_variable_partitioner
from muster.compat.v1._partitioners import variable_axis_size_partitioner as variable_axis_size_partitioner
from muster.compat.v1._session_config import ConfigProto as ConfigProto
from muster.compat.v1._session_config import GPUOptions as GPUOptions
from muster.compat.v1._step import GraphKeys as GraphKeys
from muster.compat.v1._step import assign as assign
from muster.compat.v1._step import assign_add as assign_add
from muster.compat.v1._step import disable_eager_execution as disable_eager_execution
from muster.compat.v1._step import disable_v2_behavior as disable_v2_behavior
from muster.compat.v1._step import get_collection as get_collection
from muster.compat.v1._step import trainable_variables as trainable_variables
from muster.data import Placeholder as _Placeholder

placeholder = _Placeholder
ones_initializer = _keras.initializers.Ones
set_random_seed = _set_seed
zeros_initializer = _keras.initializers.Zeros


def __getattr__(name: str) -> Any:
    # Not imported above, since it imports this module.
    try:
        return getattr(sys.modules["muster.compat.tensorflow"], name)
    except AttributeError:
        raise _missing("tf.compat.v1", name) from None
