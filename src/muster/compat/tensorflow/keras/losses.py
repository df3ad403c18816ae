"""``tf.keras.losses``: that of Keras 3, and ``Reduction``."""

from typing import Any

from muster._keras import keras
from muster.compat._names import passed_on as _passed_on


class Reduction:
    """How a loss over a batch becomes one number: what Keras 3 takes as ``reduction``."""

    AUTO = "sum_over_batch_size"
    NONE = "none"
    SUM = "sum"
    SUM_OVER_BATCH_SIZE = "sum_over_batch_size"


def __getattr__(name: str) -> Any:
    return _passed_on(keras.losses, name, "Reduction")
