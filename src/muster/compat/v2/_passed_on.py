"""Modules that have the names of another, beside their own."""

from types import ModuleType
from typing import Any


def passed_on(module: ModuleType, name: str, *own: str) -> Any:
    """Look a name up in another module for one that has not got it; ``import *`` asks for ``__all__``.

    Args:
        module: the other one.
        name: what is looked up.
        *own: the public names of the one that asks.

    Raises:
        AttributeError: the other has no such name.
    """
    if name == "__all__":
        theirs = getattr(module, "__all__", dir(module))
        return sorted({*own, *(each for each in theirs if not each.startswith("_"))})
    return getattr(module, name)
