"""``tf.compat.v1.app``."""

from muster_tensorflow.compat.v1 import flags as flags
from muster_tensorflow.programs.v1.app import run as run
