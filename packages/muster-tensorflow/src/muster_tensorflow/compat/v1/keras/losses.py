"""``tf.compat.v1.keras.losses``: the names of ``tf.keras.losses``, and older ones."""

from typing import Any

from muster import keras
from muster_tensorflow.keras import losses as _losses
from muster_tensorflow.names._names import passed_on as _passed_on

cosine = cosine_proximity = keras.losses.cosine_similarity


def __getattr__(name: str) -> Any:
    return _passed_on(_losses, __name__, name, "cosine", "cosine_proximity")
