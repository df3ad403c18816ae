"""``tf.compat.v1.keras.optimizers``: those of ``tf.keras.optimizers.legacy``, and the other names."""

from typing import Any

from muster_tensorflow.keras import optimizers as _optimizers
from muster_tensorflow.keras.optimizers.legacy import SGD as SGD
from muster_tensorflow.keras.optimizers.legacy import Adadelta as Adadelta
from muster_tensorflow.keras.optimizers.legacy import Adagrad as Adagrad
from muster_tensorflow.keras.optimizers.legacy import Adam as Adam
from muster_tensorflow.keras.optimizers.legacy import Adamax as Adamax
from muster_tensorflow.keras.optimizers.legacy import Ftrl as Ftrl
from muster_tensorflow.keras.optimizers.legacy import Nadam as Nadam
from muster_tensorflow.keras.optimizers.legacy import RMSprop as RMSprop
from muster_tensorflow.names._names import passed_on as _passed_on


def __getattr__(name: str) -> Any:
    return _passed_on(_optimizers, __name__, name)
