"""``tf.keras.losses``: Keras 3's, and ``Reduction``."""

from typing import Any

from muster._keras import keras
from muster.compat._names import passed_on as _passed_on


class Reduction:
    """Ways to reduce a loss over a batch, as Keras 3's argument ``reduction`` takes them."""

    AUTO = "sum_over_batch_size"
    NONE = "none"
    SUM = "sum"
    SUM_OVER_BATCH_SIZE = "sum_over_batch_size"


def __getattr__(name: str) -> Any:
    return _passed_on(keras.losses, __name__, name, "Reduction")
