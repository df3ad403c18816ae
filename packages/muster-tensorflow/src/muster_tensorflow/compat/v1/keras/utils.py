"""``tf.compat.v1.keras.utils``: the names of ``tf.keras.utils``, and a helper for code of TensorFlow 1."""

from typing import Any

from muster_tensorflow.keras import utils as _utils
from muster_tensorflow.library.ops.random._fixed_seeds import (
    DeterministicRandomTestTool as DeterministicRandomTestTool,
)
from muster_tensorflow.names._names import passed_on as _passed_on
from muster_tensorflow.programs.v1.variables._tracked_variables import (
    get_or_create_layer as get_or_create_layer,
)
from muster_tensorflow.programs.v1.variables._tracked_variables import (
    track_tf1_style_variables as track_tf1_style_variables,
)

_OWN = ("DeterministicRandomTestTool", "get_or_create_layer", "track_tf1_style_variables")


def __getattr__(name: str) -> Any:
    return _passed_on(_utils, __name__, name, *_OWN)
