"""Functions that are made of shorter ones, where TensorFlow has several with the same arguments."""

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def named_after(short: Callable[..., Any], function: Function) -> Function:
    """The function with the name and the docstring of the one that it was made of, and its own arguments."""
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(function, name, getattr(short, name))
    return function
