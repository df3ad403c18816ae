"""``tf.compat.v1.logging``: log with muster's logger."""

import logging

_log = logging.getLogger("muster")


def get_logger() -> logging.Logger:
    """Return the parent of all of muster's loggers, ``logging.getLogger("muster")``."""
    return _log


def set_verbosity(v: int | str) -> None:
    """Set the lowest level to log; log to standard error unless the program has set up logging.

    Args:
        v: The level, such as ``tf.compat.v1.logging.INFO``.
    """
    _log.setLevel(v)
    if not _log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s:muster:%(message)s"))
        _log.addHandler(handler)


def get_verbosity() -> int:
    """Return the lowest level that is logged."""
    return _log.getEffectiveLevel()
