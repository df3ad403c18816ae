"""``tf.random``: other numbers in every call, of a compiled function as well."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from muster.compat._names import missing as _missing
from muster.compat.ops._random import normal as normal
from muster.compat.ops._random import set_seed as set_seed
from muster.compat.ops._random import uniform as uniform

if not _TYPE_CHECKING:  # so that type checkers know what is not there, too

    def __getattr__(name: str) -> None:
        raise _missing("tf.random", name)
