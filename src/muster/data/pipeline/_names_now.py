"""A user's function with the values that its names have now, as TensorFlow takes them.

TensorFlow traces the function of `Dataset.map` when `map` is called, so that ``lambda x: (x, i)`` in a loop
over ``i`` keeps each ``i``. Here it is called later, when Python would find the last one.

Source: tensorflow/python/data/ops/structured_function.py, ``StructuredFunctionWrapper``.
"""

import dis
import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

_STORES = {"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF"}


def users_function(operation: str, function: Any) -> Callable[..., Any]:
    """Return the function that a user gives an operation, as `with_names_now` does.

    Raises:
        TypeError: It is not callable.
    """
    if not callable(function):
        raise TypeError(f"{operation} needs a function, got {function!r}.")
    return with_names_now(function)


def with_names_now(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that finds at every call what its names outside of it stand for now.

    Names that it assigns itself, or that have no value yet, stay as they are. So do functions that a module
    defines, which other processes import, and objects with a ``__call__``.

    Args:
        function: A function, or a `functools.partial` of one; anything else is returned as it is.
    """
    if type(function) is functools.partial:
        return functools.partial(with_names_now(function.func), *function.args, **function.keywords)
    if not isinstance(function, types.FunctionType) or _is_imported(function):
        return function
    codes = list(_codes(function.__code__))
    stored = {each.argval for code in codes for each in dis.get_instructions(code) if each.opname in _STORES}
    names = {name for code in codes for name in code.co_names}
    namespace: dict[str, Any] = function.__globals__
    if not stored & names:
        namespace = _Names(namespace, names)
    now = types.FunctionType(
        function.__code__,
        namespace,
        function.__name__,
        function.__defaults__,
        tuple(
            cell if name in stored else _copied(cell)
            for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        ),
    )
    for attribute in ("__kwdefaults__", "__module__", "__qualname__", "__doc__", "__annotations__"):
        setattr(now, attribute, getattr(function, attribute))
    now.__dict__.update(function.__dict__)
    return now


class _Names(dict[str, Any]):
    """The values that some of a module's names have now; other names have those of the module."""

    def __init__(self, module: dict[str, Any], names: set[str]) -> None:
        kept = [name for name in module if name in names or name.startswith("__")]
        super().__init__((name, module[name]) for name in kept)
        self._module = module

    def __missing__(self, name: str) -> Any:
        return self._module[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self._module


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Return the code of a function and of the functions in it."""
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _codes(each)


def _copied(cell: types.CellType) -> types.CellType:
    try:
        return types.CellType(cell.cell_contents)
    except ValueError:  # it is empty
        return cell


def _is_imported(function: types.FunctionType) -> bool:
    """Return whether another process can import a function."""
    module = sys.modules.get(function.__module__)
    return function.__module__ != "__main__" and getattr(module, function.__name__, None) is function
