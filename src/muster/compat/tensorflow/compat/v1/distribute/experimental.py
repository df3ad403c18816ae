"""``tf.compat.v1.distribute.experimental``."""

from typing import Any

from muster.compat._names import missing as _missing
from muster.compat.tensorflow import distribute as _distribute
from muster.distribute import ParameterServerStrategyV1 as ParameterServerStrategy


def __getattr__(name: str) -> Any:
    try:
        return getattr(_distribute.experimental, name)
    except AttributeError:
        raise _missing("tf.compat.v1.distribute.experimental", name) from None
