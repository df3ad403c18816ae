"""Wrap methods of Keras' classes, and functions of its modules, while a scope is active.

In threads that trace nothing, what is wrapped must behave as Keras' own.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

_Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]

_WRAPPERS: list[tuple[type | ModuleType, str, _Wrapper]] = []
_lock = threading.Lock()
_users = 0
_originals: list[Callable[..., Any]] = []


def wrap_in_scopes(owner: type | ModuleType, name: str, wrapper: _Wrapper) -> None:
    """Register a wrapper for a method of a class or a function of a module, while any scope is active."""
    _WRAPPERS.append((owner, name, wrapper))


@contextlib.contextmanager
def patched_keras() -> Iterator[None]:
    """Wrap all registered methods; the last thread to leave restores the originals."""
    global _users, _originals
    with _lock:
        if _users == 0:
            _originals = [getattr(owner, name) for owner, name, _ in _WRAPPERS]
            for (owner, name, wrapper), original in zip(_WRAPPERS, _originals, strict=True):
                setattr(owner, name, wrapper(original))
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                for (owner, name, _), original in zip(_WRAPPERS, _originals, strict=True):
                    setattr(owner, name, original)
