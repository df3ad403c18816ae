"""``tf.debugging``."""

from muster.compat.v2.config import set_log_device_placement as set_log_device_placement
