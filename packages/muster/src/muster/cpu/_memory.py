"""Keep the memory that a step frees for the next one.

XLA allocates a step's temporaries, often tens of megabytes in one block, and frees them when the step is
done. glibc returns blocks that large to the system at once, which must clear each of their pages before the
next step may write to it.
"""

import ctypes
import functools
import logging
import os

import jax

from muster.cpu._lowerings import lowerings_wanted

_log = logging.getLogger(__name__)

# By their numbers in glibc's malloc.h; in bytes. The first is refused before glibc 2.35; without it the
# others would do harm.
_SETTINGS = {
    -3: 64 * 2**20,  # M_MMAP_THRESHOLD: blocks up to here; threads other than the main one allow no more
    -2: 64 * 2**20,  # M_TOP_PAD: else a block that fills its 64 MiB heap would still be returned
    -1: 256 * 2**20,  # M_TRIM_THRESHOLD: free memory at the end of the main thread's heap
}


def keep_memory() -> None:
    """Make malloc keep freed blocks of less than 64 MiB, instead of returning them to the system.

    This takes effect once, and for good. Does nothing where the default platform is not the CPU, after
    ``use_cpu_lowerings(False)``, without glibc, and where the environment has settings for malloc.
    """
    if jax.default_backend() == "cpu" and lowerings_wanted() and not _set_by_user():
        _keep()


def compute_at_once() -> None:
    """Let JAX compute on the thread that calls it, in a process that waits for each result anyway.

    Else a program of 100 µs is handed to another thread and back. This takes effect for good, if JAX has not
    started yet; and on CPUs alone.
    """
    if lowerings_wanted():
        jax.config.update("jax_cpu_enable_async_dispatch", False)


@functools.cache
def _keep() -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    for number, size in _SETTINGS.items():
        if not mallopt(number, size):
            _log.debug("malloc refused %d for its setting %d.", size, number)
            return


def _set_by_user() -> bool:
    return "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", "") or any(
        name.startswith("MALLOC_") and name.endswith("_") for name in os.environ
    )
