"""``tf.keras.callbacks``: Keras 3's, and ``experimental`` of TensorFlow 2.3."""

from typing import Any

from muster import keras
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.names._names import passed_on as _passed_on

experimental = _Names("tf.keras.callbacks.experimental", BackupAndRestore=keras.callbacks.BackupAndRestore)


def __getattr__(name: str) -> Any:
    return _passed_on(keras.callbacks, __name__, name, "experimental")
