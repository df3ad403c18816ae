"""``tf.keras``: Keras 3, and names of Keras 2 that Estimator programs use."""

from typing import Any

from muster import keras
from muster.distribute import SidecarEvaluator as _SidecarEvaluator
from muster.feature_column import SequenceFeatures as _SequenceFeatures
from muster_tensorflow.keras import activations as activations
from muster_tensorflow.keras import backend as backend
from muster_tensorflow.keras import callbacks as callbacks
from muster_tensorflow.keras import constraints as constraints
from muster_tensorflow.keras import estimator as estimator
from muster_tensorflow.keras import layers as layers
from muster_tensorflow.keras import losses as losses
from muster_tensorflow.keras import metrics as metrics
from muster_tensorflow.keras import mixed_precision as mixed_precision
from muster_tensorflow.keras import models as models
from muster_tensorflow.keras import optimizers as optimizers
from muster_tensorflow.keras import preprocessing as preprocessing
from muster_tensorflow.keras import regularizers as regularizers
from muster_tensorflow.keras import utils as utils
from muster_tensorflow.keras import wrappers as wrappers
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.names._names import missing as _missing
from muster_tensorflow.programs.v2.keras._premade_models import LinearModel as _LinearModel
from muster_tensorflow.programs.v2.keras._premade_models import WideDeepModel as _WideDeepModel
from muster_tensorflow.programs.v2.saved._keras_folders import export_saved_model as _export_saved_model
from muster_tensorflow.programs.v2.saved._keras_folders import load_from_saved_model as _load_from_saved_model

experimental = _Names(
    "tf.keras.experimental",
    CosineDecay=keras.optimizers.schedules.CosineDecay,
    CosineDecayRestarts=keras.optimizers.schedules.CosineDecayRestarts,
    LinearModel=_LinearModel,
    SequenceFeatures=_SequenceFeatures,
    SidecarEvaluator=_SidecarEvaluator,
    WideDeepModel=_WideDeepModel,
    export_saved_model=_export_saved_model,
    load_from_saved_model=_load_from_saved_model,
)


def __getattr__(name: str) -> Any:
    try:
        return getattr(keras, name)
    except AttributeError:
        raise _missing("tf.keras", name) from None
