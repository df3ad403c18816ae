"""``tf.keras.losses``: Keras 3's, ``Reduction``, and the short names of Keras 2."""

from typing import Any

from muster import keras
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v2.keras._keras_parameters import (
    sparse_categorical_crossentropy as sparse_categorical_crossentropy,
)

mse = MSE = keras.losses.mean_squared_error
mae = MAE = keras.losses.mean_absolute_error
mape = MAPE = keras.losses.mean_absolute_percentage_error
msle = MSLE = keras.losses.mean_squared_logarithmic_error
kld = KLD = kullback_leibler_divergence = keras.losses.kl_divergence
logcosh = keras.losses.log_cosh

_SHORT = (
    *("mse", "MSE", "mae", "MAE", "mape", "MAPE", "msle", "MSLE", "kld", "KLD"),
    *("kullback_leibler_divergence", "logcosh"),
)


class Reduction:
    """Ways to reduce a loss over a batch, as Keras 3's argument ``reduction`` takes them."""

    AUTO = "sum_over_batch_size"
    NONE = "none"
    SUM = "sum"
    SUM_OVER_BATCH_SIZE = "sum_over_batch_size"


def __getattr__(name: str) -> Any:
    return _passed_on(keras.losses, __name__, name, "Reduction", "sparse_categorical_crossentropy", *_SHORT)
