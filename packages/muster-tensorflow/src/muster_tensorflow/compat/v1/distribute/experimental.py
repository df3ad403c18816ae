"""``tf.compat.v1.distribute.experimental``."""

from typing import Any

from muster.distribute import ParameterServerStrategyV1 as ParameterServerStrategy
from muster_tensorflow import distribute as _distribute
from muster_tensorflow.names._names import missing as _missing


def __getattr__(name: str) -> Any:
    try:
        return getattr(_distribute.experimental, name)
    except AttributeError:
        raise _missing("tf.compat.v1.distribute.experimental", name) from None
