"""Keep the memory that a step frees for the next one.

XLA allocates a step's temporaries, often a hundred megabytes in one block, and frees them when the step is
done. glibc returns blocks that large to the system at once, which must clear each of their pages before the
next step may write to it.
"""

import functools

import jax

from muster.cpu._lowerings import lowerings_wanted
from muster.cpu._malloc import set_malloc

_MIB = 2**20
# By their numbers in glibc's malloc.h; in bytes. The first is refused before glibc 2.35; without it the
# others would do harm.
_SETTINGS = {
    -3: 512 * _MIB,  # M_MMAP_THRESHOLD: blocks up to here; heaps of other threads have 64 MiB
    -2: 64 * _MIB,  # M_TOP_PAD: else a block that fills its 64 MiB heap would still be returned
    -1: 512 * _MIB,  # M_TRIM_THRESHOLD: free memory at the end of the main thread's heap
}


def keep_memory() -> None:
    """Make malloc keep freed blocks of less than 512 MiB, instead of returning them to the system.

    Those of threads that had a heap of their own before `share_heap` was called: of less than 64 MiB. This
    takes effect once, and for good. Does nothing where the default platform is not the CPU, after
    ``use_cpu_lowerings(False)``, without glibc, and where the environment has settings for malloc.
    """
    if jax.default_backend() == "cpu" and lowerings_wanted():
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
    set_malloc(_SETTINGS)
