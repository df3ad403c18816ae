"""``tf.random``: new numbers in every call, also of a compiled function."""

from muster.compat.ops._random import normal as normal
from muster.compat.ops._random import set_seed as set_seed
from muster.compat.ops._random import uniform as uniform
