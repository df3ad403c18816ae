"""``tf.profiler.experimental``: JAX's profiler, whose profiles TensorBoard shows.

Source: tensorflow/python/profiler/profiler_v2.py and trace.py.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import jax

from muster.extend import local_path


def start(logdir: str | os.PathLike[str], options: object = None) -> None:
    """Start to profile, into a folder; ``options`` are unused.

    Raises:
        RuntimeError: A profile has been started already.
    """
    jax.profiler.start_trace(local_path(logdir))


def stop(save: bool = True) -> None:
    """Write the profile, also if it is not to be saved.

    Raises:
        RuntimeError: None has been started.
    """
    jax.profiler.stop_trace()


@contextlib.contextmanager
def profile(logdir: str | os.PathLike[str], options: object = None) -> Iterator[None]:
    """Profile what runs in a ``with`` block."""
    start(logdir)
    try:
        yield
    finally:
        stop()


def trace(name: str, **kwargs: Any) -> contextlib.AbstractContextManager[Any]:
    """Name what runs in a ``with`` block; with ``step_num`` and ``_r=1`` it is a step of a training loop."""
    if kwargs.pop("_r", None):
        return jax.profiler.StepTraceAnnotation(name, **kwargs)
    return jax.profiler.TraceAnnotation(name, **kwargs)
