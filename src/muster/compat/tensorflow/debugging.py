"""``tf.debugging``."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from muster.compat._names import missing_from as _missing_from
from muster.compat.v2.config import set_log_device_placement as set_log_device_placement

if not _TYPE_CHECKING:  # so that type checkers also report missing names
    __getattr__ = _missing_from("tf.debugging")
