"""Keras on the JAX backend: the one place that imports it.

Keras chooses its backend when it is first imported, from ``KERAS_BACKEND``, and without it takes
TensorFlow. This module sets the variable when the user has not, which is the only write to the
environment in the library: Keras offers no other way.
"""

import contextlib
import gc
import os
from collections.abc import Iterator


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """Hold Python's garbage collector off while modules are imported, and let it take them for old objects.

    Modules stay. Without this, a sixth of the import goes into passing over them in search of garbage.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:  # else what the user froze would thaw
            gc.freeze()
            gc.unfreeze()
        gc.enable()


os.environ.setdefault("KERAS_BACKEND", "jax")

with _no_collections():
    import keras

if keras.backend.backend() != "jax":
    raise ImportError(
        f"muster trains on JAX, but Keras was imported with the backend {keras.backend.backend()!r}. "
        "Set KERAS_BACKEND=jax, or import muster before keras."
    )

__all__ = ["keras"]
