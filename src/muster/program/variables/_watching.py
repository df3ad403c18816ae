"""What Keras does to variables, seen while a scope is active: whom new ones belong to, what adds to them.

Methods of Keras' classes are wrapped for that time; in threads that trace nothing they do as ever.
"""

import contextlib
import enum
import functools
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from muster._keras import keras
from muster.program.variables._by_identity import ByIdentity


class VariableKind(enum.Enum):
    """What a variable belongs to."""

    WEIGHT = "weight"  # a layer's
    METRIC = "metric"
    SEED = "seed"  # a seed generator's
    OTHER = "other"  # an optimizer's, or the user's own


# What the variables that this thread creates belong to: of which kind they are, and to whom.
_KIND: ContextVar[VariableKind] = ContextVar("muster_variable_kind", default=VariableKind.OTHER)
# Whether what this thread assigns adds to what was there.
_ADDING: ContextVar[bool] = ContextVar("muster_adding", default=False)


class Owner(Protocol):
    """On whose replicas variables are used; a strategy."""

    @property
    def num_replicas_in_sync(self) -> int:
        """How many there are."""

    def check_variable(self, variable: Any) -> None:
        """Raise what is wrong with a new variable."""


_OWNER: ContextVar[Owner | None] = ContextVar("muster_variable_owner", default=None)


@dataclass(frozen=True)
class Origin:
    """Where a variable comes from.

    Attributes:
        kind: what it belongs to.
        owner: in whose ``owning`` it was created; None if in nobody's.
    """

    kind: VariableKind = VariableKind.OTHER
    owner: Owner | None = None


_ORIGINS: ByIdentity[Origin] = ByIdentity()


def origin_of(variable: Any) -> Origin:
    """Where a variable comes from, if it was created inside of a scope or of ``owning``."""
    return _ORIGINS.get(variable, Origin())


def note_origin(variable: Any) -> None:
    """Note of which kind a new variable is, and whose."""
    _ORIGINS[variable] = Origin(_KIND.get(), _OWNER.get())


def check_new(variable: Any) -> None:
    """Let the owner of a new variable say what is wrong with it."""
    owner = origin_of(variable).owner
    if owner is not None:
        owner.check_variable(variable)


def keeps_own_values(variable: Any) -> bool:
    """Whether each replica keeps a value of a variable of its own: metrics' are one sum all the time."""
    origin = origin_of(variable)
    return (
        variable.synchronization == "on_read"
        and variable.aggregation != "none"
        and origin.kind is VariableKind.OTHER
        and origin.owner is not None
        and origin.owner.num_replicas_in_sync > 1
    )


def refuse_to_add(variable: Any) -> None:
    """Refuse to add, for all replicas at once, to a variable that is the sum of what each of them has.

    Raises:
        ValueError: It is one.
    """
    if is_adding() and keeps_own_values(variable) and variable.aggregation == "sum":
        raise ValueError(
            "SyncOnReadVariable does not support `assign_add` and `assign_sub` in cross-replica context when "
            f"aggregation is set to `sum`: {variable.path!r} is the sum of what each replica has. Assign the "
            "new sum, or add in strategy.run."
        )


@contextlib.contextmanager
def owning(owner: Owner) -> Iterator[None]:
    """Note an owner of the variables that are created meanwhile in this thread."""
    token = _OWNER.set(owner)
    try:
        with watched_creation():
            yield
    finally:
        _OWNER.reset(token)


_Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]

# What is wrapped while any scope is active: of which class, and with what.
_WRAPPED: list[tuple[type, str, _Wrapper]] = []
_watch_lock = threading.Lock()
_watchers = 0
_originals: list[Callable[..., Any]] = []


def wrap_in_scopes(owner: type, name: str, wrapper: _Wrapper) -> None:
    """Have a method wrapped while any scope is active; it has to do as ever in threads that trace nothing."""
    _WRAPPED.append((owner, name, wrapper))


@contextlib.contextmanager
def watched_creation() -> Iterator[None]:
    """While any scope is active, what Keras does to variables passes through it."""
    global _watchers, _originals
    with _watch_lock:
        if _watchers == 0:
            _originals = [getattr(owner, name) for owner, name, _ in _WRAPPED]
            for (owner, name, wrapper), original in zip(_WRAPPED, _originals, strict=True):
                setattr(owner, name, wrapper(original))
        _watchers += 1
    try:
        yield
    finally:
        with _watch_lock:
            _watchers -= 1
            if _watchers == 0:
                for (owner, name, _), original in zip(_WRAPPED, _originals, strict=True):
                    setattr(owner, name, original)


def _adding(original: Callable[..., Any]) -> Callable[..., Any]:
    def add(self: Any, value: Any) -> Any:
        token = _ADDING.set(True)
        try:
            return original(self, value)
        finally:
            _ADDING.reset(token)

    return add


def is_adding() -> bool:
    """Whether the value that is being assigned was made by adding to the one before."""
    return _ADDING.get()


def _creating(kind: VariableKind, original: Callable[..., Any]) -> Callable[..., Any]:
    def add(self: Any, *args: Any, **kwargs: Any) -> Any:
        token = _KIND.set(kind)
        try:
            return original(self, *args, **kwargs)
        finally:
            _KIND.reset(token)

    return add


wrap_in_scopes(keras.Variable, "assign_add", _adding)
wrap_in_scopes(keras.Variable, "assign_sub", _adding)
wrap_in_scopes(keras.Layer, "add_weight", functools.partial(_creating, VariableKind.WEIGHT))
wrap_in_scopes(keras.metrics.Metric, "add_variable", functools.partial(_creating, VariableKind.METRIC))


def kind_of_new() -> VariableKind:
    """What a variable belongs to that is created now."""
    return _KIND.get()
