"""``tf.tpu``: functions that programs call before they create a TPUStrategy."""

from muster.compat._names import Names as _Names
from muster.compat.v2 import config as _config

experimental = _Names(
    "tf.tpu.experimental",
    initialize_tpu_system=_config.initialize_tpu_system,
    shutdown_tpu_system=_config.shutdown_tpu_system,
)
