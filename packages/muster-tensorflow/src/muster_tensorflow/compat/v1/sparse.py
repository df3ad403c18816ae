"""``tf.compat.v1.sparse``: TensorFlow 1's arguments, and the names of ``tf.sparse``."""

from typing import Any

from muster_tensorflow import sparse as _sparse
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v1.operations._old_parameters import sparse_add as add
from muster_tensorflow.programs.v1.operations._old_parameters import sparse_concat as concat
from muster_tensorflow.programs.v1.operations._old_parameters import sparse_reduce_max as reduce_max
from muster_tensorflow.programs.v1.operations._old_parameters import sparse_reduce_sum as reduce_sum
from muster_tensorflow.programs.v1.operations._old_parameters import sparse_segment_mean as segment_mean
from muster_tensorflow.programs.v1.operations._old_parameters import sparse_segment_sqrt_n as segment_sqrt_n
from muster_tensorflow.programs.v1.operations._old_parameters import sparse_segment_sum as segment_sum
from muster_tensorflow.programs.v1.operations._old_parameters import sparse_split as split


def __getattr__(name: str) -> Any:
    return _passed_on(_sparse, __name__, name)
