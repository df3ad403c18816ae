"""``tf.compat.v1.nn``: TensorFlow 1's arguments, and the names of ``tf.nn``."""

from typing import Any

from muster.compat._names import passed_on as _passed_on
from muster.compat.ops._nn import softmax_cross_entropy_with_logits as softmax_cross_entropy_with_logits_v2
from muster.compat.tensorflow import nn as _nn
from muster.compat.v1._old_arguments import avg_pool as avg_pool
from muster.compat.v1._old_arguments import conv2d as conv2d
from muster.compat.v1._old_arguments import dropout as dropout
from muster.compat.v1._old_arguments import embedding_lookup as embedding_lookup
from muster.compat.v1._old_arguments import l2_normalize as l2_normalize
from muster.compat.v1._old_arguments import log_softmax as log_softmax
from muster.compat.v1._old_arguments import max_pool as max_pool
from muster.compat.v1._old_arguments import moments as moments
from muster.compat.v1._old_arguments import softmax as softmax
from muster.compat.v1._old_arguments import (
    softmax_cross_entropy_with_logits as softmax_cross_entropy_with_logits,
)
from muster.compat.v1._old_arguments import (
    weighted_cross_entropy_with_logits as weighted_cross_entropy_with_logits,
)
from muster.compat.v1._old_arguments import xw_plus_b as xw_plus_b


def __getattr__(name: str) -> Any:
    return _passed_on(_nn, __name__, name)
