"""Patch attributes of other packages' classes and modules, and restore the originals.

Only a part of the manifest may change anything, while `applying` it: what it does can be told and undone.

Some classes are written in C, such as NumPy's of dtypes, and Python refuses to set their attributes. These
are put into the dict of the class, which the garbage collector knows. ``tests/ops/test_dtype_names.py`` fails
where that is otherwise.
"""

import contextlib
import ctypes
import gc
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE, in all versions since Python 3.10
ABSENT: Any = object()
"""Stands for a value that was not there."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change that a part of the manifest has made.

    Attributes:
        part: The part's name.
        owner: The class, module or mapping.
        name: The attribute, or the key of a mapping.
        path: The owner's name, such as ``keras.src.layers.layer.Layer``.
        before: The owner's own value before, as its dict has it; `ABSENT` if it had none.
        adds: Whether the owner had no such attribute or key, nor inherited one.
    """

    part: str
    owner: Any
    name: Any
    path: str
    before: Any
    adds: bool

    def undo(self) -> None:
        """Set the owner's value to what it was."""
        if isinstance(self.owner, MutableMapping):
            if self.before is ABSENT:
                del self.owner[self.name]
            else:
                self.owner[self.name] = self.before
        elif self.before is ABSENT:
            _delete(self.owner, self.name)
        else:
            _set(self.owner, self.name, self.before)


_changes: list[Change] = []
_parts: list[str] = []


@contextlib.contextmanager
def applying(part: str) -> Iterator[None]:
    """Let a part of the manifest make changes in a ``with`` block."""
    _parts.append(part)
    try:
        yield
    finally:
        _parts.pop()


def change(owner: Any, name: str, value: Any) -> None:
    """Set an attribute of a class or module."""
    _note(owner, name, vars(owner).get(name, ABSENT), adds=not hasattr(owner, name))
    _set(owner, name, value)


def wrap(owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
    """Set an attribute of a class or module to what a function makes of it."""
    change(owner, name, wrapper(getattr(owner, name)))


def remove(owner: Any, name: str) -> None:
    """Delete an attribute of a class, if it has one of its own."""
    if name in vars(owner):
        _note(owner, name, vars(owner)[name], adds=False)
        _delete(owner, name)


def change_item(owner: Any, mapping: str, key: Any, value: Any) -> None:
    """Set an item of a mapping, such as a registry, that is an attribute of a module."""
    items = getattr(owner, mapping)
    before = items.get(key, ABSENT)
    _note(items, key, before, adds=before is ABSENT, path=f"{_path_of(owner)}.{mapping}")
    items[key] = value


def applied() -> tuple[Change, ...]:
    """Return the changes that are made now, in their order."""
    return tuple(_changes)


def undo() -> None:
    """Take all changes back, the last one first: classes and modules are as they were."""
    while _changes:
        _changes.pop().undo()


def _note(owner: Any, name: Any, before: Any, *, adds: bool, path: str | None = None) -> None:
    path = path or _path_of(owner)
    if not _parts:
        raise RuntimeError(
            f"{path}.{name} was to be changed outside of the manifest. Change it in a function that "
            "patches/manifest.toml names."
        )
    part = _parts[-1]
    _changes.append(Change(part=part, owner=owner, name=name, path=path, before=before, adds=adds))


def _path_of(owner: type | ModuleType) -> str:
    """Return the name of a class with its module, or that of a module."""
    return owner.__name__ if isinstance(owner, ModuleType) else f"{owner.__module__}.{owner.__qualname__}"


def _is_immutable(owner: Any) -> bool:
    return isinstance(owner, type) and bool(owner.__flags__ & _IMMUTABLE)


def _set(owner: Any, name: str, value: Any) -> None:
    if _is_immutable(owner):
        _names_of(owner)[name] = value
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))
    else:
        setattr(owner, name, value)


def _delete(owner: Any, name: str) -> None:
    if _is_immutable(owner):
        del _names_of(owner)[name]
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))
    else:
        delattr(owner, name)


def _names_of(owner: type) -> dict[str, Any]:
    """Return the dict itself of a class, of which Python shows a proxy that cannot be changed."""
    (names,) = (each for each in gc.get_referents(owner.__dict__) if isinstance(each, dict))
    return names
