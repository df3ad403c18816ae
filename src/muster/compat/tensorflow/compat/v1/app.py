"""``tf.compat.v1.app``."""

from muster.compat.tensorflow.compat.v1 import flags as flags
from muster.compat.v1.app import run as run
