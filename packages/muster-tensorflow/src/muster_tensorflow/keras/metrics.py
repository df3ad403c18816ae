"""``tf.keras.metrics``: Keras 3's, and the short names of Keras 2."""

from typing import Any

from muster import keras
from muster_tensorflow.keras.losses import _SHORT as _SHORT
from muster_tensorflow.keras.losses import KLD as KLD
from muster_tensorflow.keras.losses import MAE as MAE
from muster_tensorflow.keras.losses import MAPE as MAPE
from muster_tensorflow.keras.losses import MSE as MSE
from muster_tensorflow.keras.losses import MSLE as MSLE
from muster_tensorflow.keras.losses import kld as kld
from muster_tensorflow.keras.losses import kullback_leibler_divergence as kullback_leibler_divergence
from muster_tensorflow.keras.losses import logcosh as logcosh
from muster_tensorflow.keras.losses import mae as mae
from muster_tensorflow.keras.losses import mape as mape
from muster_tensorflow.keras.losses import mse as mse
from muster_tensorflow.keras.losses import msle as msle
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v2.keras._keras_parameters import binary_accuracy as binary_accuracy
from muster_tensorflow.programs.v2.keras._keras_parameters import (
    sparse_categorical_crossentropy as sparse_categorical_crossentropy,
)
from muster_tensorflow.programs.v2.keras._older_metrics import MeanRelativeError as MeanRelativeError
from muster_tensorflow.programs.v2.keras._older_metrics import MeanTensor as MeanTensor


def __getattr__(name: str) -> Any:
    return _passed_on(
        keras.metrics,
        __name__,
        name,
        "MeanRelativeError",
        "binary_accuracy",
        "MeanTensor",
        "sparse_categorical_crossentropy",
        *_SHORT,
    )
