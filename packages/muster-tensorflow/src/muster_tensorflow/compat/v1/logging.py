"""``tf.compat.v1.logging``."""

from logging import DEBUG as DEBUG
from logging import ERROR as ERROR
from logging import FATAL as FATAL
from logging import INFO as INFO
from logging import WARN as WARN

from muster_tensorflow.programs.v1.logging import LOGGER as _logger
from muster_tensorflow.programs.v1.logging import get_logger as _get_logger  # programs set its level
from muster_tensorflow.programs.v1.logging import get_verbosity as get_verbosity
from muster_tensorflow.programs.v1.logging import log as log
from muster_tensorflow.programs.v1.logging import log_every_n as log_every_n
from muster_tensorflow.programs.v1.logging import log_first_n as log_first_n
from muster_tensorflow.programs.v1.logging import log_if as log_if
from muster_tensorflow.programs.v1.logging import set_verbosity as set_verbosity

debug = _logger.debug
info = _logger.info
warn = warning = _logger.warning
error = _logger.error
fatal = _logger.critical
