"""``tf.version``: that of the TensorFlow whose names these are; muster's own is ``muster.__version__``."""

VERSION = "2.15.1"
GIT_VERSION = "v2.15.1"
COMPILER_VERSION = ""
