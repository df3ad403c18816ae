"""``tf.compat.v2``: the names of TensorFlow 2, which are those of ``tf``."""

import sys
from typing import Any

from muster_tensorflow.names._names import PACKAGE as _PACKAGE
from muster_tensorflow.names._names import missing as _missing


def __getattr__(name: str) -> Any:
    # Not imported above, since it imports this module.
    try:
        return getattr(sys.modules[_PACKAGE], name)
    except AttributeError:
        raise _missing("tf.compat.v2", name) from None
