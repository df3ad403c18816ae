"""Settings of glibc's malloc."""

import ctypes
import logging
import os
from collections.abc import Mapping

_log = logging.getLogger(__name__)


def set_malloc(settings: Mapping[int, int]) -> None:
    """Set some of malloc's settings, up to the first that it refuses.

    Does nothing without glibc, and where the environment has settings for malloc.

    Args:
        settings: Values by their numbers in glibc's malloc.h.
    """
    mallopt = None if _set_by_user() else getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    for number, value in settings.items():
        if not mallopt(number, value):
            _log.debug("malloc refused %d for its setting %d.", value, number)
            return


def _set_by_user() -> bool:
    return "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", "") or any(
        name.startswith("MALLOC_") and name.endswith("_") for name in os.environ
    )
