"""``tf.version``: the version of TensorFlow with these names; muster's is ``muster.__version__``."""

VERSION = "2.15.1"
GIT_VERSION = "v2.15.1"
COMPILER_VERSION = ""
GRAPH_DEF_VERSION = 1645
GRAPH_DEF_VERSION_MIN_CONSUMER = GRAPH_DEF_VERSION_MIN_PRODUCER = 0
