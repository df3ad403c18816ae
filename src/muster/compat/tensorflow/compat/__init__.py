"""``tf.compat``."""

from muster.compat.tensorflow.compat import v1 as v1
