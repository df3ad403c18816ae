"""``tf.compat.v1.keras.layers``: the names of ``tf.keras.layers``, and layers by cuDNN."""

from typing import Any

from muster.compat._names import passed_on as _passed_on
from muster.compat.tensorflow.keras import layers as _layers
from muster.compat.v2._older_layers import CuDNNGRU as CuDNNGRU
from muster.compat.v2._older_layers import CuDNNLSTM as CuDNNLSTM


def __getattr__(name: str) -> Any:
    return _passed_on(_layers, __name__, name, "CuDNNGRU", "CuDNNLSTM")
