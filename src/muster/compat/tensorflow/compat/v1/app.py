"""``tf.compat.v1.app``."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from muster.compat._names import missing as _missing
from muster.compat.v1.app import run as run

if not _TYPE_CHECKING:  # so that type checkers know what is not there, too

    def __getattr__(name: str) -> None:
        raise _missing("tf.compat.v1.app", name)
