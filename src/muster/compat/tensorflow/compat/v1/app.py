"""``tf.compat.v1.app``."""

from muster.compat._app import run as run
