"""``tf.keras.preprocessing``: Keras 3's and Keras 2's, and datasets that do not need TensorFlow."""

import sys as _sys
from typing import Any

from muster import keras
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
from muster_tensorflow.programs.v2.data._time_series import (
    timeseries_dataset_from_array as timeseries_dataset_from_array,
)
from muster_tensorflow.programs.v2.keras._keras_legacy import legacy_module as _legacy_module
from muster_tensorflow.programs.v2.keras._keras_parameters import load_img as _load_img

image = _legacy_module("preprocessing.image", load_img=_load_img)
sequence = _legacy_module("preprocessing.sequence")
text = _legacy_module("preprocessing.text")
# So that they can be imported from, too.
_sys.modules.update({f"{__name__}.image": image, f"{__name__}.sequence": sequence, f"{__name__}.text": text})


def __getattr__(name: str) -> Any:
    return _passed_on(
        keras.preprocessing,
        __name__,
        name,
        "image",
        "audio_dataset_from_directory",
        "image_dataset_from_directory",
        "sequence",
        "text",
        "text_dataset_from_directory",
        "timeseries_dataset_from_array",
    )
