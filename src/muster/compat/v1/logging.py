"""``tf.compat.v1.logging`` over the logger of muster."""

import logging
from typing import Any

DEBUG = logging.DEBUG
INFO = logging.INFO
WARN = logging.WARNING
ERROR = logging.ERROR
FATAL = logging.FATAL

_logger = logging.getLogger("muster")


def get_logger() -> logging.Logger:
    """The logger that all of muster logs under."""
    return _logger


def set_verbosity(v: int | str) -> None:
    """Log from this level on; to standard error unless the program has set up logging.

    Args:
        v: such as ``tf.compat.v1.logging.INFO``.
    """
    _logger.setLevel(v)
    if not _logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s:muster:%(message)s"))
        _logger.addHandler(handler)


def get_verbosity() -> int:
    """The level from which on is logged."""
    return _logger.getEffectiveLevel()


def debug(msg: str, *args: Any, **kwargs: Any) -> None:
    """Log at the level DEBUG."""
    _logger.debug(msg, *args, **kwargs)


def info(msg: str, *args: Any, **kwargs: Any) -> None:
    """Log at the level INFO."""
    _logger.info(msg, *args, **kwargs)


def warning(msg: str, *args: Any, **kwargs: Any) -> None:
    """Log at the level WARN."""
    _logger.warning(msg, *args, **kwargs)


def error(msg: str, *args: Any, **kwargs: Any) -> None:
    """Log at the level ERROR."""
    _logger.error(msg, *args, **kwargs)


def fatal(msg: str, *args: Any, **kwargs: Any) -> None:
    """Log at the level FATAL."""
    _logger.critical(msg, *args, **kwargs)
