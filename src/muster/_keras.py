"""Keras on the JAX backend: the one place that imports it.

Keras chooses its backend when it is first imported, from ``KERAS_BACKEND``, and without it takes
TensorFlow. This module sets the variable when the user has not, which is the only write to the
environment in the library: Keras offers no other way.
"""

import contextlib
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType


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


class _WrappersOnUse(MetaPathFinder):
    """Finds ``keras.wrappers`` as a module that is loaded when something is first taken from it.

    Keras' wrappers for scikit-learn import it where it is installed, and scikit-learn all of ``scipy.stats``:
    a third of the time that a process needs to import Keras, and most programs use none of it.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "keras.wrappers":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


@contextlib.contextmanager
def _wrappers_on_use() -> Iterator[None]:
    finder = _WrappersOnUse()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


os.environ.setdefault("KERAS_BACKEND", "jax")

with _no_collections(), _wrappers_on_use():
    import keras

if keras.backend.backend() != "jax":
    raise ImportError(
        f"muster trains on JAX, but Keras was imported with the backend {keras.backend.backend()!r}. "
        "Set KERAS_BACKEND=jax, or import muster before keras."
    )

__all__ = ["keras"]
