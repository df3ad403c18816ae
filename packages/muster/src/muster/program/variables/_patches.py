"""Wrap methods of Keras' classes, and functions of its modules, while a scope is active or a tape is open.

In threads that trace nothing, what is wrapped must behave as Keras' own. `muster.keras_hooks` says what is
wrapped, and why.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from muster.keras_hooks import require_named

_Wrapper = Callable[[Any], Any]
_INHERITED = object()


class Patches:
    """Wrappers of attributes that are there as long as anybody uses them."""

    def __init__(self) -> None:
        self._wrappers: list[tuple[type | ModuleType, str, _Wrapper]] = []
        self._owned: list[Any] = []
        self._users = 0
        self._lock = threading.Lock()

    @property
    def are_in_use(self) -> bool:
        """Whether what is registered is wrapped now."""
        return self._users > 0

    def add(self, owner: type | ModuleType, name: str, wrapper: _Wrapper) -> None:
        """Register a wrapper for a method or property of a class, or a function of a module."""
        require_named(owner, name)
        self._wrappers.append((owner, name, wrapper))

    def begin(self) -> None:
        """Wrap all that is registered, until as many calls of `end`."""
        with self._lock:
            if self._users == 0:
                self._owned = [vars(owner).get(name, _INHERITED) for owner, name, _ in self._wrappers]
                originals = [getattr(owner, name) for owner, name, _ in self._wrappers]
                for (owner, name, wrapper), original in zip(self._wrappers, originals, strict=True):
                    setattr(owner, name, wrapper(original))
            self._users += 1

    def end(self) -> None:
        """Restore the originals, if this was the last user."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                for (owner, name, _), owned in zip(self._wrappers, self._owned, strict=True):
                    if owned is _INHERITED:
                        delattr(owner, name)
                    else:
                        setattr(owner, name, owned)


_WHILE_SCOPES_ARE_ACTIVE = Patches()
WHILE_TAPES_ARE_OPEN = Patches()


def wrap_in_scopes(owner: type | ModuleType, name: str, wrapper: _Wrapper) -> None:
    """Register a wrapper for a method of a class or a function of a module, while any scope is active."""
    _WHILE_SCOPES_ARE_ACTIVE.add(owner, name, wrapper)


@contextlib.contextmanager
def patched_keras() -> Iterator[None]:
    """Wrap all registered methods; the last thread to leave restores the originals."""
    _WHILE_SCOPES_ARE_ACTIVE.begin()
    try:
        yield
    finally:
        _WHILE_SCOPES_ARE_ACTIVE.end()
