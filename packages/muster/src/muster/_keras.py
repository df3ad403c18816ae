"""Keras on the JAX backend: the one place that imports it."""

import contextlib
import gc
import importlib
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from muster.lifecycle import install, log_interrupt, require_jax, take_jax


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """Pause Python's garbage collector during imports, then move all objects to its oldest generation.

    Modules stay in memory: scanning them for garbage would take a sixth of the import's time.
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


@contextlib.contextmanager
def _interrupts_held_off() -> Iterator[None]:
    """Let Ctrl-C wait: within the imports of NumPy, JAX and Keras it crashes the process, or gets lost."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            with log_interrupt("Interrupted while Keras and JAX were imported: nothing had begun."):
                signal.raise_signal(signal.SIGINT)


class _Wrappers(ModuleType):
    """Stands in for ``keras.wrappers``, and imports it when one of its names is first used.

    Keras imports it at once, and with it scikit-learn and ``scipy.stats`` where they are installed: a third
    of the time to import Keras, for wrappers that most programs do not use. ``importlib.util.LazyLoader`` is
    safe with threads since Python 3.12 only, and imports a module when code such as ``inspect.stack`` looks
    at all modules.
    """

    _lock = threading.RLock()

    def __getattr__(self, name: str) -> Any:
        if name != "__all__" and name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name)
        return getattr(self._load(), name)

    def __dir__(self) -> list[str]:
        return dir(self._load())

    def _load(self) -> ModuleType:
        with self._lock:
            if sys.modules[self.__name__] is self:
                del sys.modules[self.__name__]
                try:
                    vars(self).update(vars(importlib.import_module(self.__name__)))  # for `import *`
                except BaseException:
                    sys.modules[self.__name__] = self
                    raise
            return sys.modules[self.__name__]


install()
if backend := take_jax():
    logging.getLogger(__name__).warning(
        "KERAS_BACKEND was %r. muster trains on JAX, and has set it to 'jax'.", backend
    )
sys.modules.setdefault("keras.wrappers", _Wrappers("keras.wrappers"))
with _interrupts_held_off(), _no_collections():
    import keras

require_jax(keras.backend.backend())

__all__ = ["keras"]
