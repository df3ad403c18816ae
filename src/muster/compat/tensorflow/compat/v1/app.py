"""``tf.compat.v1.app``."""

from muster.compat.v1.app import run as run
