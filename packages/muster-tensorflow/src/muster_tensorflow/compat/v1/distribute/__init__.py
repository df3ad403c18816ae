"""``tf.compat.v1.distribute``: the names of ``tf.distribute``, with TensorFlow 1's in place of 2's."""

from typing import Any

from muster_tensorflow import distribute as _distribute
from muster_tensorflow.compat.v1.distribute import cluster_resolver as cluster_resolver
from muster_tensorflow.compat.v1.distribute import experimental as experimental
from muster_tensorflow.names._names import missing as _missing


def __getattr__(name: str) -> Any:
    try:
        return getattr(_distribute, name)
    except AttributeError:
        raise _missing("tf.compat.v1.distribute", name) from None
