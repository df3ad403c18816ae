"""Keras on the JAX backend: the one place that imports it.

Keras chooses its backend when it is first imported, from ``KERAS_BACKEND``, and without it takes
TensorFlow. This module sets the variable when the user has not, which is the only write to the
environment in the library: Keras offers no other way.
"""

import contextlib
import gc
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """Pause Python's garbage collector while modules are imported, and age their objects afterwards.

    Modules stay in memory. Scanning them for garbage would take a sixth of the import's time.
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


class _OnUse(Loader):
    """Loads a module at the first access to one of its names.

    ``importlib.util.LazyLoader`` is safe with threads since Python 3.12 only, and loads a module when code
    such as ``inspect.stack`` looks at all modules.
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        values, lock, loading = vars(module), threading.RLock(), False

        def load() -> None:
            nonlocal loading
            with lock:
                if not loading and "__getattr__" in values:
                    loading = True  # for what it imports itself
                    try:
                        self._loader.exec_module(module)
                        del values["__getattr__"], values["__dir__"]
                    finally:
                        loading = False

        def get(name: str) -> Any:
            if name == "__all__" or not name.startswith("__"):
                load()
            if name not in values:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}", name=name)
            return values[name]

        def names() -> list[str]:
            load()
            return sorted(values)

        values |= {"__getattr__": get, "__dir__": names}


class _WrappersOnUse(MetaPathFinder):
    """Finds ``keras.wrappers`` as a module that is loaded at its first use.

    It imports scikit-learn where that is installed, and with it ``scipy.stats``: a third of the time to
    import Keras, for wrappers that most programs do not use.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "keras.wrappers":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _OnUse(spec.loader)
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
