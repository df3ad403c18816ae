"""Record the names that programs give to operations, prefixed by their name scopes.

Hooks ask for them, as in ``LoggingTensorHook({"probabilities": "softmax_tensor"})``.
"""

import contextlib
import functools
import inspect
import itertools
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster import TraceError
from muster.extend import current_scope
from muster.program import offer_output
from muster_tensorflow.names._names import modules_of_names

# Modules whose functions name what they return by their argument ``name``.
_OPERATIONS = (
    "muster_tensorflow.library.ops.",
    "muster_tensorflow.programs.v1.operations._old_arguments",
    "muster_tensorflow.programs.v1.training._schedules",
)
# Of these, functions that name it otherwise.
_BY_THEMSELVES = {"identity"}

# The names of traced values, which are no keys of dicts, by their id.
_GIVEN: dict[int, tuple["weakref.ref[Any]", str]] = {}
_SCOPE: ContextVar[str | None] = ContextVar("muster_tensorflow_name_scope", default="")


@contextlib.contextmanager
def entered(name: str) -> Iterator[str]:
    """Prefix the names of values in a ``with`` block; gives the prefix, with a slash at its end.

    Args:
        name: What to add to the prefix, with a number if a block had it before; empty to go back to no
            prefix. One with a slash at its end is the whole prefix of a block that is entered again.
    """
    outer = _SCOPE.get()
    if outer is None:
        inner = None
    elif name.endswith("/"):
        inner = name
    else:
        inner = f"{outer}{numbered(name)}/" if name else ""
    token = _SCOPE.set(inner)
    try:
        yield inner or ""
    finally:
        _SCOPE.reset(token)


@contextlib.contextmanager
def unnamed() -> Iterator[None]:
    """Name no values in a ``with`` block: branches and bodies of loops cannot give values away."""
    token = _SCOPE.set(None)
    try:
        yield
    finally:
        _SCOPE.reset(token)


def path_of(name: str) -> str | None:
    """Return a name with the prefix of the scopes around the call; None if values have no names here."""
    scope = _SCOPE.get()
    return None if scope is None else f"{scope}{name}"


def numbered(name: str) -> str:
    """Return the name of a scope that is opened here, with a number if the step had one of this name before.

    Source: tensorflow/python/framework/ops.py, ``Graph.unique_name``.
    """
    scope, outer = current_scope(), _SCOPE.get()
    if scope is None or outer is None:
        return name
    taken: set[str] = scope.shared.setdefault("tensorflow 1 scopes of values", set())
    names = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(1)))
    free = next(each for each in names if f"{outer}{each}".lower() not in taken)
    taken.add(f"{outer}{free}".lower())
    return free


def leaf_of(prefix: str) -> str:
    """Return what a whole prefix, such as ``"a/b/"``, adds to that of the scopes around the call."""
    return prefix.removeprefix(_SCOPE.get() or "").strip("/")


def name_value(name: str, value: Any) -> None:
    """Let hooks ask for a value of a step by a name; outside of steps, do nothing.

    Args:
        name: The name, without the scopes around the call.
        value: An array or number; of a list or tuple the members are called ``name``, ``name:1`` and so on.
            Anything else, such as text, has no name.
    """
    path = path_of(name)
    if path is None:
        return
    members = value if isinstance(value, list | tuple) else [value]
    for number, member in enumerate(members):
        if isinstance(member, jax.Array | np.ndarray | np.generic) and jnp.issubdtype(
            member.dtype, jnp.number
        ):
            _keep_name(member, f"{path}:{number}")
            try:
                offer_output(f"{path}:{number}" if number else path, member)
            except TraceError:
                return


def _keep_name(value: Any, name: str) -> None:
    if isinstance(value, jax.core.Tracer):
        place = id(value)
        _GIVEN[place] = weakref.ref(value, lambda _: _GIVEN.pop(place, None)), name


def name_of(value: Any) -> str:
    """Return the name that a program gave a traced value, such as ``"scope/logits:0"``, or ``"Tensor:0"``."""
    kept = _GIVEN.get(id(value))
    return kept[1] if kept is not None and kept[0]() is value else "Tensor:0"


@functools.cache
def naming(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Make an operation that lets hooks ask for its result by the argument ``name``."""
    place = list(inspect.signature(operation).parameters).index("name")

    @functools.wraps(operation)
    def named(*args: Any, **kwargs: Any) -> Any:
        result = operation(*args, **kwargs)
        name = args[place] if len(args) > place else kwargs.get("name")
        if isinstance(name, str):
            name_value(name, result)
        return result

    return named


def name_results() -> None:
    """Replace operations in the modules that programs see, all of them loaded, by those of `naming`."""
    for _, module in modules_of_names():
        for name, value in list(vars(module).items()):
            if _is_operation(value):
                setattr(module, name, naming(value))


def _is_operation(value: object) -> bool:
    if not isinstance(value, FunctionType) or not value.__module__.startswith(_OPERATIONS):
        return False
    named = "name" in inspect.signature(value).parameters
    return named and value.__name__ not in _BY_THEMSELVES


def snake_case(name: str) -> str:
    """Return a class's name as layers and cells are called: ``conv2d_transpose``, ``lstm_cell``."""
    parts: list[str] = []
    for index, letter in enumerate(name):
        before, after = name[index - 1 : index], name[index + 1 : index + 2]
        if letter.isupper() and (before.islower() or (before and after.islower())):
            parts.append("_")
        parts.append(letter.lower())
    return "".join(parts)
