"""``tf.keras.callbacks``: those of Keras 3, one of which TensorFlow 2.3 had as an experimental one."""

from typing import Any

from muster._keras import keras
from muster.compat._names import Names as _Names
from muster.compat._names import passed_on as _passed_on

experimental = _Names("tf.keras.callbacks.experimental", BackupAndRestore=keras.callbacks.BackupAndRestore)


def __getattr__(name: str) -> Any:
    return _passed_on(keras.callbacks, name, "experimental")
