"""``tf.compat.v1.layers``."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from muster.compat._names import missing_from as _missing_from
from muster.compat.v1.layers import average_pooling2d as average_pooling2d
from muster.compat.v1.layers import batch_normalization as batch_normalization
from muster.compat.v1.layers import conv2d as conv2d
from muster.compat.v1.layers import dense as dense
from muster.compat.v1.layers import dropout as dropout
from muster.compat.v1.layers import flatten as flatten
from muster.compat.v1.layers import max_pooling2d as max_pooling2d

if not _TYPE_CHECKING:  # so that type checkers also report missing names
    __getattr__ = _missing_from("tf.compat.v1.layers")
