"""``tf.random``: new numbers in every call, also of a compiled function."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from muster.compat._names import missing_from as _missing_from
from muster.compat.ops._random import normal as normal
from muster.compat.ops._random import set_seed as set_seed
from muster.compat.ops._random import uniform as uniform

if not _TYPE_CHECKING:  # so that type checkers also report missing names
    __getattr__ = _missing_from("tf.random")
