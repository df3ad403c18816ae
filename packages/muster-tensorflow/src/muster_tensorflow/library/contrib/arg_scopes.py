"""``arg_scope``: default arguments of functions in a block of code.

Source: tensorflow/contrib/framework/python/ops/arg_scope.py.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

Scope = Mapping[Any, Mapping[str, Any]]

_SCOPES: ContextVar[Scope | None] = ContextVar("muster_tensorflow_arg_scope", default=None)


def add_arg_scope(function: Function) -> Function:
    """Let a function take defaults from `arg_scope`."""

    @functools.wraps(function)
    def scoped(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{**(_SCOPES.get() or {}).get(scoped, {}), **kwargs})

    scoped.has_arg_scope = True  # type: ignore[attr-defined]
    return scoped  # type: ignore[return-value]


@contextlib.contextmanager
def arg_scope(
    list_ops_or_scope: Sequence[Callable[..., Any]] | Mapping[Any, Mapping[str, Any]], **kwargs: Any
) -> Iterator[Mapping[Any, Mapping[str, Any]]]:
    """Give functions default arguments in a ``with`` block; gives the scope, which can be entered again.

    Args:
        list_ops_or_scope: Functions that `add_arg_scope` has made; or a scope, without other arguments.
        **kwargs: The defaults, beside those of the scopes around the block.

    Raises:
        ValueError: A scope is given with arguments, or a function takes no defaults.
    """
    if isinstance(list_ops_or_scope, Mapping):
        if kwargs:
            raise ValueError(
                "When attempting to re-use a scope by suppling a dictionary, kwargs must be empty."
            )
        scope: dict[Any, Mapping[str, Any]] = dict(list_ops_or_scope)
    else:
        scope = dict(_SCOPES.get() or {})
        for function in list_ops_or_scope:
            if not getattr(function, "has_arg_scope", False):
                raise ValueError(f"{function!r} is not decorated with @add_arg_scope.")
            scope[function] = {**scope.get(function, {}), **kwargs}
    token = _SCOPES.set(scope)
    try:
        yield scope
    finally:
        _SCOPES.reset(token)
