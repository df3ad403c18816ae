"""``tf.compat.v1.logging``: the logger ``tensorflow``, which hears all that muster says."""

import logging
import sys
from collections import Counter
from typing import Any

LOGGER = _log = logging.getLogger("tensorflow")
"""TensorFlow's logger. `hear_muster` makes it the parent of muster's."""

_counts: Counter[str] = Counter()


class _OnStandardError(logging.StreamHandler[Any]):
    """TensorFlow's logger has one handler, which programs give a format, or remove.

    It shows what Python shows if a program has not set up logging, and nothing if it has: TensorFlow shows
    messages twice then, in its own form and in the program's.

    Source: tensorflow/python/platform/tf_logging.py, ``get_logger``.
    """

    _given: Any = None

    @property
    def stream(self) -> Any:
        """The stream that a program has set, else the standard error of now, which notebooks replace."""
        return sys.stderr if self._given is None else self._given

    @stream.setter
    def stream(self, stream: Any) -> None:
        self._given = None if stream is sys.stderr else stream

    def emit(self, record: logging.LogRecord) -> None:
        """Write a message, unless the program has handlers for all loggers."""
        if not (LOGGER.propagate and logging.getLogger().handlers):
            super().emit(record)


def hear_muster() -> None:
    """Let handlers and the level that programs give to TensorFlow's logger count for what muster logs."""
    for name in ("muster", "muster_tensorflow"):
        logging.getLogger(name).parent = LOGGER
    if not LOGGER.handlers:
        LOGGER.addHandler(_OnStandardError())


def get_logger() -> logging.Logger:
    """Return `LOGGER`, which logs to standard error unless the program has set up logging."""
    if not _log.hasHandlers():
        _log.addHandler(_OnStandardError())
    for handler in _log.handlers:
        if isinstance(handler, _OnStandardError) and handler.formatter is None:
            handler.setFormatter(logging.Formatter("%(levelname)s:muster:%(message)s"))
    return _log


def set_verbosity(v: int | str) -> None:
    """Set the lowest level to log; log to standard error unless the program has set up logging.

    Args:
        v: The level, such as ``tf.compat.v1.logging.INFO``.
    """
    get_logger().setLevel(v)


def get_verbosity() -> int:
    """Return the lowest level that is logged."""
    return _log.getEffectiveLevel()


def log(level: int, msg: object, *args: object) -> None:
    """Log a message at a level."""
    _log.log(level, msg, *args)


def log_if(level: int, msg: object, condition: object, *args: object) -> None:
    """Log a message at a level if a condition holds."""
    if condition:
        _log.log(level, msg, *args)


def log_every_n(level: int, msg: str, n: int, *args: object) -> None:
    """Log a message of this text the first time, and then each n-th time."""
    if _counted(msg) % n == 0:
        _log.log(level, msg, *args)


def log_first_n(level: int, msg: str, n: int, *args: object) -> None:
    """Log a message of this text the first n times."""
    if _counted(msg) < n:
        _log.log(level, msg, *args)


def _counted(msg: str) -> int:
    """Return how often a message came before."""
    _counts[msg] += 1
    return _counts[msg] - 1
