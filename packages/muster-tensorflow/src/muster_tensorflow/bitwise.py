"""``tf.bitwise``."""

from muster_tensorflow.library.ops.math._special import bitwise_and as bitwise_and
from muster_tensorflow.library.ops.math._special import bitwise_or as bitwise_or
from muster_tensorflow.library.ops.math._special import bitwise_xor as bitwise_xor
from muster_tensorflow.library.ops.math._special import invert as invert
from muster_tensorflow.library.ops.math._special import left_shift as left_shift
from muster_tensorflow.library.ops.math._special import right_shift as right_shift
