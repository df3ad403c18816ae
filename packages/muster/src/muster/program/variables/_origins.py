"""Note the origin of new variables: the kind of object that creates them, and the owning strategy."""

import contextlib
import enum
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from muster._keras import keras
from muster.program.variables._by_identity import ByIdentity
from muster.program.variables._patches import patched_keras, wrap_in_scopes
from muster.program.variables._remote_variables import Storage, move_elsewhere, storage_of

T = TypeVar("T")


class VariableKind(enum.Enum):
    """The kind of object that a variable belongs to."""

    WEIGHT = "weight"  # a layer's
    METRIC = "metric"
    SEED = "seed"  # a seed generator's
    LOCAL = "local"  # the user's own, which begins anew in each session
    OTHER = "other"  # an optimizer's, or the user's own


# The name that Keras gives the state of a seed generator.
SEED_STATE = "seed_generator_state"
# The name of what a stateful recurrent layer keeps from batch to batch; no file has it.
RNN_STATE = "rnn_state"


class Home(Protocol):
    """Holds the values of variables.

    Attributes:
        storage: What holds the values of new variables; None if they do themselves.
        has_copies: Whether each replica has a copy of the variables, which may differ from others'.
    """

    storage: Storage | None
    has_copies: bool


class Owner(Protocol):
    """A strategy, on whose replicas variables are used."""

    @property
    def placement(self) -> Home:
        """The place of its variables' values."""

    @property
    def num_replicas_in_sync(self) -> int:
        """The number of replicas."""

    def check_variable(self, variable: Any) -> None:
        """Raise an error if this strategy cannot use a new variable."""


# The kind of the variables that this thread creates now.
_KIND: ContextVar[VariableKind] = ContextVar("muster_variable_kind", default=VariableKind.OTHER)
# Whether all rows of the variables that this thread creates now must be in one place.
_WHOLE: ContextVar[bool] = ContextVar("muster_whole_variables", default=False)
# The weight that this thread creates a slot for now.
_REFERENCE: ContextVar[Any] = ContextVar("muster_reference_variable", default=None)
# Whether this thread is in assign_add or assign_sub.
_ADDING: ContextVar[bool] = ContextVar("muster_adding", default=False)
_RESULT: ContextVar[bool] = ContextVar("muster_result_of_metric", default=False)
_OWNER: ContextVar[Owner | None] = ContextVar("muster_variable_owner", default=None)


@dataclass(frozen=True)
class Origin:
    """The origin of a variable.

    Attributes:
        kind: The kind of object that it belongs to.
        owner: The strategy in whose scope it was created, if any.
    """

    kind: VariableKind = VariableKind.OTHER
    owner: Owner | None = None


_ORIGINS: ByIdentity[Origin] = ByIdentity()
# Variables without an aggregation to which replicas have assigned values of their own.
_ASSIGNED_BY_REPLICAS: ByIdentity[bool] = ByIdentity()
_UNKNOWN = Origin()
_OF_SUM = Origin(VariableKind.METRIC)


def origin_of(variable: Any) -> Origin:
    """Return the origin of a variable; outside of any scope, what its arguments say of it.

    Each replica adds its own to a sum that is read on all of them, as the variables of Keras' metrics are.
    """
    origin = _ORIGINS.get(variable, _UNKNOWN)
    if origin is _UNKNOWN and variable.synchronization == "on_read" and variable.aggregation == "sum":
        return _OF_SUM
    return origin


def note_origin(variable: Any) -> None:
    """Note the origin of a variable that is being created."""
    _ORIGINS[variable] = Origin(_KIND.get(), _OWNER.get())


def storage_for(variable: Any, name: str | None) -> Storage | None:
    """Return what is to hold the value of a variable that is being created; None if it is to do so itself.

    Args:
        variable: The variable, whose origin was noted.
        name: The name that it gets. Seeds stay with whoever draws from them.
    """
    owner = origin_of(variable).owner
    return None if owner is None or name == SEED_STATE else owner.placement.storage


def give_to_owner(variable: Any) -> None:
    """Let the owner of new variables have one that was created before, and its value where theirs are."""
    note_origin(variable)
    storage = storage_for(variable, variable.name)
    if storage is not None and storage_of(variable) is None:
        move_elsewhere(variable, storage)


def check_new(variable: Any) -> None:
    """Let the owner of a new variable refuse it."""
    owner = origin_of(variable).owner
    if owner is not None:
        owner.check_variable(variable)


def is_per_replica(variable: Any) -> bool:
    """Return whether each replica keeps its own value of a variable. Metrics have one sum instead."""
    origin = origin_of(variable)
    return variable in _ASSIGNED_BY_REPLICAS or (
        variable.synchronization == "on_read"
        and origin.kind is VariableKind.OTHER
        and origin.owner is not None
        and origin.owner.num_replicas_in_sync > 1
        and (variable.aggregation != "none" or origin.owner.placement.has_copies)
    )


def keep_copies(variable: Any) -> bool:
    """Let each replica keep its own value of a variable from now on, if its owner's replicas may.

    Returns:
        Whether they do: not where a strategy has one copy for all replicas, and not outside of a strategy.

    Source: tensorflow/python/distribute/values.py, ``OnWritePolicy._update_replica`` without an aggregation.
    """
    owner = origin_of(variable).owner
    if owner is None or not owner.placement.has_copies or owner.num_replicas_in_sync == 1:
        return False
    _ASSIGNED_BY_REPLICAS[variable] = True
    return True


def refuse_to_add(variable: Any) -> None:
    """Refuse to add to a sum of per-replica values, outside of the replicas.

    Raises:
        ValueError: The variable is such a sum, and this is `assign_add` or `assign_sub`.
    """
    if is_adding() and is_per_replica(variable) and variable.aggregation == "sum":
        raise ValueError(
            "SyncOnReadVariable does not support `assign_add` and `assign_sub` in cross-replica context when "
            f"aggregation is set to `sum`: {variable.path!r} is the sum of the replicas' values. Assign the "
            "new sum, or add in strategy.run."
        )


@contextlib.contextmanager
def variables_owned_by(owner: Owner) -> Iterator[None]:
    """Note `owner` as the owner of all variables that this thread creates meanwhile."""
    token = _OWNER.set(owner)
    try:
        with patched_keras():
            yield
    finally:
        _OWNER.reset(token)


def is_adding() -> bool:
    """Return whether this thread is in `assign_add` or `assign_sub`."""
    return _ADDING.get()


def is_in_result() -> bool:
    """Return whether this thread computes the result of a metric."""
    return _RESULT.get()


def kind_of_new() -> VariableKind:
    """Return the kind of the variables that this thread creates now."""
    return _KIND.get()


@contextlib.contextmanager
def created_as_local() -> Iterator[None]:
    """Let the variables that this thread creates meanwhile be those of a session, and in no checkpoint.

    What replicas assign to them is added up, as it is for metrics, if they do not say how it combines.
    """
    token = _KIND.set(VariableKind.LOCAL)
    try:
        yield
    finally:
        _KIND.reset(token)


def may_be_split() -> bool:
    """Return whether rows of the variables that this thread creates now may be kept in several places."""
    return not _WHOLE.get() and _KIND.get() not in (VariableKind.METRIC, VariableKind.LOCAL)


@contextlib.contextmanager
def kept_whole() -> Iterator[None]:
    """Keep all rows of each variable that this thread creates meanwhile in one place."""
    token = _WHOLE.set(True)
    try:
        yield
    finally:
        _WHOLE.reset(token)


def reference_of_new() -> Any:
    """Return the weight that this thread creates a slot for now, such as a momentum; None for no slot."""
    return _REFERENCE.get()


def _for_reference(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def add(self: Any, *args: Any, **kwargs: Any) -> Any:
        variables = (each for each in (*args, *kwargs.values()) if isinstance(each, keras.Variable))
        token = _REFERENCE.set(next(variables, None))
        try:
            return original(self, *args, **kwargs)
        finally:
            _REFERENCE.reset(token)

    return add


def _with_value(variable: ContextVar[T], value: T, original: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a method so that a context variable has a value while it runs."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        token = variable.set(value)
        try:
            return original(self, *args, **kwargs)
        finally:
            variable.reset(token)

    return method


def _noting_results(original: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Wrap how metrics get attributes: each class has a ``result`` of its own."""

    def get(self: Any, name: str) -> Any:
        found = original(self, name)
        return _with_value(_RESULT, True, lambda _: found()).__get__(self) if name == "result" else found

    return get


wrap_in_scopes(keras.metrics.Metric, "__getattribute__", _noting_results)
wrap_in_scopes(keras.Variable, "assign_add", partial(_with_value, _ADDING, True))
wrap_in_scopes(keras.Variable, "assign_sub", partial(_with_value, _ADDING, True))
wrap_in_scopes(keras.Layer, "add_weight", partial(_with_value, _KIND, VariableKind.WEIGHT))
wrap_in_scopes(keras.optimizers.Optimizer, "add_variable", partial(_with_value, _WHOLE, True))
wrap_in_scopes(keras.optimizers.Optimizer, "add_variable_from_reference", _for_reference)
wrap_in_scopes(keras.metrics.Metric, "add_variable", partial(_with_value, _KIND, VariableKind.METRIC))
