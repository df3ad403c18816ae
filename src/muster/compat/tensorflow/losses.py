"""``tf.losses``: that of ``tf.keras``. The functions of TensorFlow 1 are in ``tf.compat.v1.losses``."""

from typing import Any

from muster.compat.tensorflow.keras import losses as _losses
from muster.compat.tensorflow.keras.losses import Reduction as Reduction
from muster.compat.v2._passed_on import passed_on as _passed_on


def __getattr__(name: str) -> Any:
    return _passed_on(_losses, name, "Reduction")
