"""``tf.compat.v1.math``: TensorFlow 1's arguments, and the names of ``tf.math``."""

from typing import Any

from muster_tensorflow import math as _math
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v1.operations._old_arguments import argmax as argmax
from muster_tensorflow.programs.v1.operations._old_arguments import argmin as argmin
from muster_tensorflow.programs.v1.operations._old_arguments import confusion_matrix as confusion_matrix
from muster_tensorflow.programs.v1.operations._old_parameters import count_nonzero as count_nonzero
from muster_tensorflow.programs.v1.operations._old_parameters import in_top_k as in_top_k
from muster_tensorflow.programs.v1.operations._old_parameters import log_softmax as log_softmax
from muster_tensorflow.programs.v1.operations._old_parameters import reduce_all as reduce_all
from muster_tensorflow.programs.v1.operations._old_parameters import reduce_any as reduce_any
from muster_tensorflow.programs.v1.operations._old_parameters import reduce_logsumexp as reduce_logsumexp
from muster_tensorflow.programs.v1.operations._old_parameters import reduce_max as reduce_max
from muster_tensorflow.programs.v1.operations._old_parameters import reduce_mean as reduce_mean
from muster_tensorflow.programs.v1.operations._old_parameters import reduce_min as reduce_min
from muster_tensorflow.programs.v1.operations._old_parameters import reduce_prod as reduce_prod
from muster_tensorflow.programs.v1.operations._old_parameters import reduce_sum as reduce_sum
from muster_tensorflow.programs.v1.operations._old_parameters import softmax as softmax


def __getattr__(name: str) -> Any:
    return _passed_on(_math, __name__, name)
