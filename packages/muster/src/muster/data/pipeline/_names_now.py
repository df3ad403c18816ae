"""Bind a user's function to the current values of its globals and closures, as TensorFlow does.

TensorFlow traces the function of `Dataset.map` when `map` is called, so that ``lambda x: (x, i)`` in a loop
over ``i`` keeps each ``i``. Here it is called later, when Python would find the last one. What it gives to
``tf.py_function`` is Python in TensorFlow, too, and reads its names whenever it runs.

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
    free = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    cells = [(cell, cell if name in stored else _copied(cell)) for name, cell in free]
    namespace: dict[str, Any] = function.__globals__
    if not stored & names:
        namespace = _Names(namespace, names, cells)
    return _with_names(function, namespace, tuple(copy for _, copy in cells))


def with_names_of_calls(function: Any) -> Any:
    """Return a function that finds at every call what its names outside of it stand for then.

    Args:
        function: Anything; it is returned as it is, unless it was made in a function of `with_names_now`.
    """
    if type(function) is functools.partial:
        return functools.partial(with_names_of_calls(function.func), *function.args, **function.keywords)
    namespace = getattr(function, "__globals__", None)
    if not isinstance(function, types.FunctionType) or not isinstance(namespace, _Names):
        return function
    cells = tuple(namespace.cells.get(id(cell), cell) for cell in function.__closure__ or ())
    return _with_names(function, namespace.module, cells)


def _with_names(
    function: types.FunctionType, namespace: dict[str, Any], cells: tuple[types.CellType, ...]
) -> types.FunctionType:
    """Return a function with other names outside of it."""
    now = types.FunctionType(function.__code__, namespace, function.__name__, function.__defaults__, cells)
    for attribute in ("__kwdefaults__", "__module__", "__qualname__", "__doc__", "__annotations__"):
        setattr(now, attribute, getattr(function, attribute))
    now.__dict__.update(function.__dict__)
    return now


class _Names(dict[str, Any]):
    """The values that some of a module's names have now; other names have those of the module.

    Args:
        module: The names of the module.
        names: Those to keep.
        cells: The copies of the cells around the function of these names.

    Attributes:
        module: The names of the module.
        cells: The cells around the function, by the ids of their copies.
    """

    def __init__(
        self, module: dict[str, Any], names: set[str], cells: list[tuple[types.CellType, types.CellType]]
    ) -> None:
        kept = [name for name in module if name in names or name.startswith("__")]
        super().__init__((name, module[name]) for name in kept)
        self.module = module
        self.cells = {id(copy): cell for cell, copy in cells}
        self._copies = [copy for _, copy in cells]  # so that no other cell gets their ids

    def __missing__(self, name: str) -> Any:
        return self.module[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.module


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
