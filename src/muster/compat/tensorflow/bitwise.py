"""``tf.bitwise``."""

from muster.compat.ops._special import bitwise_and as bitwise_and
from muster.compat.ops._special import bitwise_or as bitwise_or
from muster.compat.ops._special import bitwise_xor as bitwise_xor
from muster.compat.ops._special import invert as invert
from muster.compat.ops._special import left_shift as left_shift
from muster.compat.ops._special import right_shift as right_shift
