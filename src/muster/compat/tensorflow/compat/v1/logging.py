"""``tf.compat.v1.logging``."""

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
