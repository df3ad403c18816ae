"""Keras on the JAX backend: the one place that imports it."""

import contextlib
import gc
import importlib
import importlib.util
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


class _StandIn(ModuleType):
    """Stands in for a module, and imports it when one of its names is first used."""

    def __getattr__(self, name: str) -> Any:
        if name != "__all__" and name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name)
        return getattr(self._load(), name)

    def __dir__(self) -> list[str]:
        return dir(self._load())

    def _load(self) -> ModuleType:
        self.withdraw()
        return importlib.import_module(self.__name__)

    def withdraw(self) -> None:
        """Let the next import of the module find it, and not this."""
        if sys.modules.get(self.__name__) is self:
            sys.modules.pop(self.__name__, None)


class _Wrappers(_StandIn):
    """Stands in for ``keras.wrappers``.

    Keras imports it at once, and with it scikit-learn and ``scipy.stats`` where they are installed: a third
    of the time to import Keras, for wrappers that most programs do not use. ``importlib.util.LazyLoader`` is
    safe with threads since Python 3.12 only, and imports a module when code such as ``inspect.stack`` looks
    at all modules.
    """

    _lock = threading.RLock()

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


class _ClassOfPandas(type):
    """The type of what stands in for a class of pandas: nothing is an instance before pandas is imported."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, getattr(sys.modules.get("pandas"), cls.__name__, ()))

    def __call__(cls, *args: Any, **named: Any) -> Any:
        return getattr(importlib.import_module("pandas"), cls.__name__)(*args, **named)


_ATTENTION = "jax.experimental.pallas.ops.tpu.splash_attention"


def _stand_ins() -> Iterator[_StandIn]:
    """Give what stands in for modules while Keras is imported, which few of its functions use."""
    for name in ("pandas", "requests"):  # for tables in `fit`, and for RemoteMonitor
        if name not in sys.modules and importlib.util.find_spec(name):
            module = _StandIn(name)
            if name == "pandas":
                vars(module).update({kind: _ClassOfPandas(kind, (), {}) for kind in ("DataFrame", "Series")})
            yield module
    if "jax.experimental.sparse" not in sys.modules:
        yield _StandIn("jax.experimental.sparse.linalg")  # SciPy's solvers
    if _ATTENTION not in sys.modules:
        attention = _StandIn(_ATTENTION)  # for TPUs
        for name in ("splash_attention_kernel", "splash_attention_mask"):
            setattr(attention, name, _StandIn(f"{_ATTENTION}.{name}"))
        yield attention


@contextlib.contextmanager
def _without_unused_modules() -> Iterator[None]:
    """Let Keras be imported without modules that it seldom uses, which take a third of the time.

    Keras keeps the stand-ins; whoever else imports such a module gets it.
    """
    if "keras" in sys.modules:
        yield
        return
    modules = list(_stand_ins())
    sys.modules.update((module.__name__, module) for module in modules)
    try:
        yield
    finally:
        for module in modules:
            module.withdraw()


install()
if backend := take_jax():
    logging.getLogger(__name__).warning(
        "KERAS_BACKEND was %r. muster trains on JAX, and has set it to 'jax'.", backend
    )
sys.modules.setdefault("keras.wrappers", _Wrappers("keras.wrappers"))
with _interrupts_held_off(), _no_collections(), _without_unused_modules():
    import keras

require_jax(keras.backend.backend())

__all__ = ["keras"]
