"""Name functions that are built from shorter ones, so that those with equal arguments share them."""

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def named_after(short: Callable[..., Any], function: Function) -> Function:
    """Give a function the name and the docstring of the shorter one that it was built from."""
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(function, name, getattr(short, name))
    return function
