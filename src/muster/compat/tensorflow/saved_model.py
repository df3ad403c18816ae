"""``tf.saved_model``: save Keras models and modules in directories, and load them as functions."""

from muster.compat._names import Names as _Names
from muster.compat.v2.saved_model import (
    DEFAULT_SERVING_SIGNATURE_DEF_KEY as DEFAULT_SERVING_SIGNATURE_DEF_KEY,
)
from muster.compat.v2.saved_model import LoadOptions as LoadOptions
from muster.compat.v2.saved_model import SaveOptions as SaveOptions
from muster.compat.v2.saved_model import VariablePolicy as _VariablePolicy
from muster.compat.v2.saved_model import contains_saved_model as contains_saved_model
from muster.compat.v2.saved_model import load as load
from muster.compat.v2.saved_model import save as save

experimental = _Names("tf.saved_model.experimental", VariablePolicy=_VariablePolicy)
signature_constants = _Names(
    "tf.saved_model.signature_constants", DEFAULT_SERVING_SIGNATURE_DEF_KEY=DEFAULT_SERVING_SIGNATURE_DEF_KEY
)
