"""``tf.compat.v1.logging``."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from muster.compat._names import missing_from as _missing_from
from muster.compat.v1.logging import DEBUG as DEBUG
from muster.compat.v1.logging import ERROR as ERROR
from muster.compat.v1.logging import FATAL as FATAL
from muster.compat.v1.logging import INFO as INFO
from muster.compat.v1.logging import WARN as WARN
from muster.compat.v1.logging import debug as debug
from muster.compat.v1.logging import error as error
from muster.compat.v1.logging import fatal as fatal
from muster.compat.v1.logging import get_verbosity as get_verbosity
from muster.compat.v1.logging import info as info
from muster.compat.v1.logging import set_verbosity as set_verbosity
from muster.compat.v1.logging import warning as warning

if not _TYPE_CHECKING:  # so that type checkers also report missing names
    __getattr__ = _missing_from("tf.compat.v1.logging")
