"""``tf.compat.v1.logging``."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from muster.compat._logging import DEBUG as DEBUG
from muster.compat._logging import ERROR as ERROR
from muster.compat._logging import FATAL as FATAL
from muster.compat._logging import INFO as INFO
from muster.compat._logging import WARN as WARN
from muster.compat._logging import debug as debug
from muster.compat._logging import error as error
from muster.compat._logging import fatal as fatal
from muster.compat._logging import get_verbosity as get_verbosity
from muster.compat._logging import info as info
from muster.compat._logging import set_verbosity as set_verbosity
from muster.compat._logging import warning as warning
from muster.compat._missing import missing as _missing

if not _TYPE_CHECKING:  # so that type checkers know what is not there, too

    def __getattr__(name: str) -> None:
        raise _missing("tf.compat.v1.logging", name)
