"""``tf.debugging``."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from muster.compat._names import missing as _missing
from muster.compat.v2.config import set_log_device_placement as set_log_device_placement

if not _TYPE_CHECKING:  # so that type checkers know what is not there, too

    def __getattr__(name: str) -> None:
        raise _missing("tf.debugging", name)
