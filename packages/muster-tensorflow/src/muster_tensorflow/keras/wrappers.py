"""``tf.keras.wrappers``: Keras 3's, and Keras 2's ``scikit_learn``."""

from typing import Any

from muster import keras
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v2.keras._scikit_learn import KerasClassifier as _KerasClassifier
from muster_tensorflow.programs.v2.keras._scikit_learn import KerasRegressor as _KerasRegressor

scikit_learn = _Names(
    "tf.keras.wrappers.scikit_learn", KerasClassifier=_KerasClassifier, KerasRegressor=_KerasRegressor
)


def __getattr__(name: str) -> Any:
    return _passed_on(keras.wrappers, __name__, name, "scikit_learn")
