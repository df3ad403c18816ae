"""``tf.saved_model``: save Keras models and modules in directories, and load them as functions."""

from muster_tensorflow.names._names import Names as _Names
from muster_tensorflow.programs.v2.saved_model import (
    DEFAULT_SERVING_SIGNATURE_DEF_KEY as DEFAULT_SERVING_SIGNATURE_DEF_KEY,
)
from muster_tensorflow.programs.v2.saved_model import LoadOptions as LoadOptions
from muster_tensorflow.programs.v2.saved_model import SaveOptions as SaveOptions
from muster_tensorflow.programs.v2.saved_model import VariablePolicy as _VariablePolicy
from muster_tensorflow.programs.v2.saved_model import contains_saved_model as contains_saved_model
from muster_tensorflow.programs.v2.saved_model import load as load
from muster_tensorflow.programs.v2.saved_model import save as save

experimental = _Names("tf.saved_model.experimental", VariablePolicy=_VariablePolicy)
ASSETS_DIRECTORY, ASSETS_KEY = "assets", "saved_model_assets"
CLASSIFY_INPUTS, CLASSIFY_METHOD_NAME = "inputs", "tensorflow/serving/classify"
CLASSIFY_OUTPUT_CLASSES, CLASSIFY_OUTPUT_SCORES = "classes", "scores"
DEBUG_DIRECTORY, DEBUG_INFO_FILENAME_PB = "debug", "saved_model_debug_info.pb"
GPU, SERVING, TPU, TRAINING = "gpu", "serve", "tpu", "train"
PREDICT_INPUTS, PREDICT_METHOD_NAME, PREDICT_OUTPUTS = "inputs", "tensorflow/serving/predict", "outputs"
REGRESS_INPUTS, REGRESS_METHOD_NAME, REGRESS_OUTPUTS = "inputs", "tensorflow/serving/regress", "outputs"
SAVED_MODEL_FILENAME_PB, SAVED_MODEL_FILENAME_PBTXT = "saved_model.pb", "saved_model.pbtxt"
SAVED_MODEL_SCHEMA_VERSION = 1
VARIABLES_DIRECTORY, VARIABLES_FILENAME = "variables", "variables"

constants = _Names(
    "tf.saved_model.constants",
    **{
        name: value
        for name, value in list(vars().items())
        if name.startswith(("ASSETS_", "DEBUG_", "SAVED_MODEL_", "VARIABLES_"))
    },
)
signature_constants = _Names(
    "tf.saved_model.signature_constants",
    DEFAULT_SERVING_SIGNATURE_DEF_KEY=DEFAULT_SERVING_SIGNATURE_DEF_KEY,
    **{
        name: value
        for name, value in list(vars().items())
        if name.startswith(("CLASSIFY_", "PREDICT_", "REGRESS_"))
    },
)
tag_constants = _Names("tf.saved_model.tag_constants", GPU=GPU, SERVING=SERVING, TPU=TPU, TRAINING=TRAINING)
