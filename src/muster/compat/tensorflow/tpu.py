"""``tf.tpu``: functions that programs call before they create a TPUStrategy."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from muster.compat._names import Names as _Names
from muster.compat._names import missing_from as _missing_from
from muster.compat.v2 import config as _config

experimental = _Names(
    "tf.tpu.experimental",
    initialize_tpu_system=_config.initialize_tpu_system,
    shutdown_tpu_system=_config.shutdown_tpu_system,
)

if not _TYPE_CHECKING:  # so that type checkers also report missing names
    __getattr__ = _missing_from("tf.tpu")
