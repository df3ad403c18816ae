"""``tf.compat.v1.linalg``: TensorFlow 1's arguments, and the names of ``tf.linalg``."""

from typing import Any

from muster_tensorflow import linalg as _linalg
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v1.operations._old_arguments import norm as norm


def __getattr__(name: str) -> Any:
    return _passed_on(_linalg, __name__, name)
