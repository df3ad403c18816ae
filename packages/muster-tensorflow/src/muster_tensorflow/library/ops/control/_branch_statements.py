"""Runtime functions that `_rewritten_branches` calls in place of branches and loops on traced values.

Locals that both ways may change are read and written by functions.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from muster_tensorflow.library.ops.control._ways import UNDEFINED as UNDEFINED
from muster_tensorflow.library.ops.control._ways import Get, Put, looped, taken, truth


def attribute(owner: Any, name: str) -> Any:
    """Return an attribute, or `UNDEFINED`."""
    return getattr(owner, name, UNDEFINED)


def set_attribute(owner: Any, name: str, value: Any) -> None:
    """Set an attribute to what `attribute` returned."""
    if value is not UNDEFINED and attribute(owner, name) is not value:
        setattr(owner, name, value)


def negated(value: Any) -> Any:
    """Return ``not value``."""
    found = truth(value)
    return not found if isinstance(found, bool) else jnp.logical_not(found)


def both(first: Any, *others: Callable[[], Any]) -> Any:
    """Return ``first and other and …``."""
    for other in others:
        found = truth(first)
        if not isinstance(found, bool):
            first = jnp.logical_and(found, truth(other()))
        elif not found:
            return first
        else:
            first = other()
    return first


def either(first: Any, *others: Callable[[], Any]) -> Any:
    """Return ``first or other or …``."""
    for other in others:
        found = truth(first)
        if not isinstance(found, bool):
            first = jnp.logical_or(found, truth(other()))
        elif found:
            return first
        else:
            first = other()
    return first


def chosen(
    test: Any,
    body: Callable[[], Any],
    orelse: Callable[[], Any],
    get: Get = tuple,
    put: Put = lambda values: None,
) -> Any:
    """Take one of two ways, and return what it returns.

    Args:
        test: Which.
        body: The way if it is true.
        orelse: The other one.
        get: Returns the locals that the ways may change.
        put: Gives them values.
    """
    which = truth(test)
    if isinstance(which, bool):
        return body() if which else orelse()
    return taken(which, body, orelse, get, put)


def repeated(test: Callable[[], Any], body: Callable[[], None], get: Get, put: Put) -> None:
    """Repeat a body as long as a test is true; other arguments as for `chosen`."""
    while isinstance(goes_on := truth(test()), bool):
        if not goes_on:
            return
        body()
    looped(test, body, get, put)
