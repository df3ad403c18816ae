"""``tf.compat.v1.flags``: absl's flags."""

from typing import Any

from muster_tensorflow.names._names import missing as _missing
from muster_tensorflow.programs.v1.flags import flag as _flag


def __getattr__(name: str) -> Any:
    try:
        return _flag(name)
    except AttributeError as exc:
        if exc.__cause__ is not None:
            raise
        raise _missing("tf.compat.v1.flags", name) from None
