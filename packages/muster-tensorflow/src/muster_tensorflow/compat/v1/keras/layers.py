"""``tf.compat.v1.keras.layers``: the names of ``tf.keras.layers``, and recurrent layers of TensorFlow 1."""

from typing import Any

from muster_tensorflow.keras import layers as _layers
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v1._keras_recurrent import GRU as GRU
from muster_tensorflow.programs.v1._keras_recurrent import LSTM as LSTM
from muster_tensorflow.programs.v1._keras_recurrent import GRUCell as GRUCell
from muster_tensorflow.programs.v1._keras_recurrent import LSTMCell as LSTMCell
from muster_tensorflow.programs.v2.layers._older_layers import CuDNNGRU as CuDNNGRU
from muster_tensorflow.programs.v2.layers._older_layers import CuDNNLSTM as CuDNNLSTM


def __getattr__(name: str) -> Any:
    return _passed_on(_layers, __name__, name, "CuDNNGRU", "CuDNNLSTM")
