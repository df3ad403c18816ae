"""``tf.keras.utils``: Keras 3's, and Keras 2's, and datasets that do not need TensorFlow."""

from typing import Any

from muster import keras
from muster.distribute import DatasetCreator as _DatasetCreator
from muster.distribute import SidecarEvaluator as SidecarEvaluator
from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v2.data._folders import (
    audio_dataset_from_directory as audio_dataset_from_directory,
)
from muster_tensorflow.programs.v2.data._folders import (
    image_dataset_from_directory as image_dataset_from_directory,
)
from muster_tensorflow.programs.v2.data._folders import (
    text_dataset_from_directory as text_dataset_from_directory,
)
from muster_tensorflow.programs.v2.data._split_dataset import split_dataset as split_dataset
from muster_tensorflow.programs.v2.data._time_series import (
    timeseries_dataset_from_array as timeseries_dataset_from_array,
)
from muster_tensorflow.programs.v2.files._downloads import get_file as get_file
from muster_tensorflow.programs.v2.keras._keras_parameters import load_img as load_img
from muster_tensorflow.programs.v2.keras._keras_parameters import to_categorical as to_categorical
from muster_tensorflow.programs.v2.keras._older_functions import to_ordinal as to_ordinal
from muster_tensorflow.programs.v2.keras._warm_start import (
    warmstart_embedding_matrix as warmstart_embedding_matrix,
)

experimental = _Names("tf.keras.utils.experimental", DatasetCreator=_DatasetCreator)


def __getattr__(name: str) -> Any:
    return _passed_on(
        keras.utils,
        __name__,
        name,
        "SidecarEvaluator",
        "experimental",
        "audio_dataset_from_directory",
        "get_file",
        "image_dataset_from_directory",
        "split_dataset",
        "load_img",
        "text_dataset_from_directory",
        "timeseries_dataset_from_array",
        "to_categorical",
        "to_ordinal",
        "warmstart_embedding_matrix",
    )
