"""``tf.compat.v1.logging``."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from muster.compat.ops._missing import missing as _missing
from muster.compat.v2._logging import DEBUG as DEBUG
from muster.compat.v2._logging import ERROR as ERROR
from muster.compat.v2._logging import FATAL as FATAL
from muster.compat.v2._logging import INFO as INFO
from muster.compat.v2._logging import WARN as WARN
from muster.compat.v2._logging import debug as debug
from muster.compat.v2._logging import error as error
from muster.compat.v2._logging import fatal as fatal
from muster.compat.v2._logging import get_verbosity as get_verbosity
from muster.compat.v2._logging import info as info
from muster.compat.v2._logging import set_verbosity as set_verbosity
from muster.compat.v2._logging import warning as warning

if not _TYPE_CHECKING:  # so that type checkers know what is not there, too

    def __getattr__(name: str) -> None:
        raise _missing("tf.compat.v1.logging", name)
