"""``tf.random``: new numbers in every call, also of a compiled function."""

from muster.compat.ops._random import normal as normal
from muster.compat.ops._random import set_seed as set_seed
from muster.compat.ops._random import shuffle as shuffle
from muster.compat.ops._random import truncated_normal as truncated_normal
from muster.compat.ops._random import uniform as uniform
