"""``tf.errors``: the error of an iterator at its end."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from muster._errors import OutOfRangeError as OutOfRangeError
from muster.compat._names import missing_from as _missing_from

if not _TYPE_CHECKING:  # so that type checkers also report missing names
    __getattr__ = _missing_from("tf.errors")
