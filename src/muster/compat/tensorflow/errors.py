"""``tf.errors``: what an iterator raises at its end."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from muster._errors import OutOfRangeError as OutOfRangeError
from muster.compat._names import missing as _missing

if not _TYPE_CHECKING:  # so that type checkers know what is not there, too

    def __getattr__(name: str) -> None:
        raise _missing("tf.errors", name)
