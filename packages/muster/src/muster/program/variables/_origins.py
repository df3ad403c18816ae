"""Note the origin of new variables: the kind of object that creates them, and the owning strategy."""

import contextlib
import enum
import functools
import random
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

from muster._keras import keras
from muster.keras_hooks import patched_keras, wrap_in_scopes
from muster.program.variables._by_identity import ByIdentity
from muster.program.variables._remote_variables import Storage, move_elsewhere, storage_of
from muster.program.variables.keras_internals import draw_seeds_by


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


@dataclass(frozen=True)
class Origin:
    """The origin of a variable.

    Attributes:
        kind: The kind of object that it belongs to.
        owner: The strategy in whose scope it was created, if any.
    """

    kind: VariableKind = VariableKind.OTHER
    owner: Owner | None = None


class _Use(NamedTuple):
    """Tells what a thread does with variables now.

    Attributes:
        kind: The kind of those that it creates.
        owner: The owner of those that it creates.
        whole: Whether all rows of those that it creates must be in one place.
        reference: The weight that it creates a slot for.
        adds: Whether it is in assign_add or assign_sub.
        in_result: Whether it computes the result of a metric.
        seeds: Draws the seeds of new generators; None for Python's process-wide one.
    """

    kind: VariableKind = VariableKind.OTHER
    owner: Owner | None = None
    whole: bool = False
    reference: Any = None
    adds: bool = False
    in_result: bool = False
    seeds: random.Random | None = None


_PLAIN = _Use()
_USE: ContextVar[_Use] = ContextVar("muster_use_of_variables", default=_PLAIN)
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
    use = _USE.get()
    _ORIGINS[variable] = Origin(use.kind, use.owner)


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
def _using(**changes: Any) -> Iterator[None]:
    """Change what this thread does with variables, in a ``with`` block."""
    token = _USE.set(_USE.get()._replace(**changes))
    try:
        yield
    finally:
        _USE.reset(token)


@contextlib.contextmanager
def variables_owned_by(owner: Owner) -> Iterator[None]:
    """Note `owner` as the owner of all variables that this thread creates meanwhile."""
    with _using(owner=owner), patched_keras():
        yield


def is_adding() -> bool:
    """Return whether this thread is in `assign_add` or `assign_sub`."""
    return _USE.get().adds


def is_in_result() -> bool:
    """Return whether this thread computes the result of a metric."""
    return _USE.get().in_result


def kind_of_new() -> VariableKind:
    """Return the kind of the variables that this thread creates now."""
    return _USE.get().kind


def owner_of_new() -> Owner | None:
    """Return the owner of the variables that this thread creates now, if there is one."""
    return _USE.get().owner


def seeds_from(generator: random.Random | None) -> contextlib.AbstractContextManager[None]:
    """Draw this thread's seeds from a generator; None draws them from Python's process-wide one."""
    # Never undone: without a generator it draws as Keras does, and another thread may be drawing.
    draw_seeds_by(_drawn_seed)
    return _using(seeds=generator)


def _drawn_seed(low: int, high: int) -> int:
    return (_USE.get().seeds or random).randint(low, high)


def created_as_local() -> contextlib.AbstractContextManager[None]:
    """Let the variables that this thread creates meanwhile be those of a session, and in no checkpoint.

    What replicas assign to them is added up, as it is for metrics, if they do not say how it combines.
    """
    return _using(kind=VariableKind.LOCAL)


def may_be_split() -> bool:
    """Return whether rows of the variables that this thread creates now may be kept in several places."""
    return not _USE.get().whole and kind_of_new() not in (VariableKind.METRIC, VariableKind.LOCAL)


def kept_whole() -> contextlib.AbstractContextManager[None]:
    """Keep all rows of each variable that this thread creates meanwhile in one place."""
    return _using(whole=True)


def reference_of_new() -> Any:
    """Return the weight that this thread creates a slot for now, such as a momentum; None for no slot."""
    return _USE.get().reference


def _for_reference(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def add(self: Any, *args: Any, **kwargs: Any) -> Any:
        variables = (each for each in (*args, *kwargs.values()) if isinstance(each, keras.Variable))
        with _using(reference=next(variables, None)):
            return original(self, *args, **kwargs)

    return add


def _within(original: Callable[..., Any], **changes: Any) -> Callable[..., Any]:
    """Wrap a method so that it changes what its thread does with variables while it runs."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        token = _USE.set(_USE.get()._replace(**changes))  # not `_using`, which takes longer
        try:
            return original(self, *args, **kwargs)
        finally:
            _USE.reset(token)

    return method


def _noting_results(original: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Wrap how metrics get attributes: each class has a ``result`` of its own."""

    def get(self: Any, name: str) -> Any:
        found = original(self, name)
        return _within(lambda _: found(), in_result=True).__get__(self) if name == "result" else found

    return get


wrap_in_scopes(keras.metrics.Metric, "__getattribute__", _noting_results)
wrap_in_scopes(keras.Variable, "assign_add", partial(_within, adds=True))
wrap_in_scopes(keras.Variable, "assign_sub", partial(_within, adds=True))
wrap_in_scopes(keras.Layer, "add_weight", partial(_within, kind=VariableKind.WEIGHT))
wrap_in_scopes(keras.optimizers.Optimizer, "add_variable", partial(_within, whole=True))
wrap_in_scopes(keras.optimizers.Optimizer, "add_variable_from_reference", _for_reference)
wrap_in_scopes(keras.metrics.Metric, "add_variable", partial(_within, kind=VariableKind.METRIC))
