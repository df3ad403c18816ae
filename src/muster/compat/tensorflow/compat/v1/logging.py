"""``tf.compat.v1.logging``."""

from logging import DEBUG as DEBUG
from logging import ERROR as ERROR
from logging import FATAL as FATAL
from logging import INFO as INFO
from logging import WARN as WARN

from muster.compat.v1.logging import get_logger as _get_logger
from muster.compat.v1.logging import get_verbosity as get_verbosity
from muster.compat.v1.logging import log as log
from muster.compat.v1.logging import log_every_n as log_every_n
from muster.compat.v1.logging import log_first_n as log_first_n
from muster.compat.v1.logging import log_if as log_if
from muster.compat.v1.logging import set_verbosity as set_verbosity

debug = _get_logger().debug
info = _get_logger().info
warn = warning = _get_logger().warning
error = _get_logger().error
fatal = _get_logger().critical
