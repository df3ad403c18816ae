"""Bind variables to values while code runs, so that the run is pure.

While user code runs in a `VariableScope`, each ``keras.Variable`` takes its value from the scope, and
assignments stay in the scope.

Keras initialises variables that are created while it infers shapes again later; therefore a scope replaces
the *initializer*, not the value afterwards.
"""

import contextlib
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from muster._errors import TraceError
from muster._keras import keras
from muster._user_code import no_stop_iteration
from muster.keras_hooks import patched_keras, wrap_in_scopes
from muster.program._replicas import Replicas
from muster.program.variables._assignments import Assignments
from muster.program.variables._bindings import Bindings
from muster.program.variables._initial_values import donatable_copy
from muster.program.variables._named_outputs import NamedOutputs
from muster.program.variables._origins import (
    check_new,
    note_origin,
    refuse_to_add,
    storage_for,
)
from muster.program.variables._remote_variables import create_elsewhere, keep_elsewhere
from muster.program.variables.keras_internals import values_of


def unshared_values(variables: Sequence[Any]) -> list[jax.Array]:
    """Return the values of variables, after copying those that anything else holds, too."""
    values = values_of(variables)
    if not values or max(map(sys.getrefcount, values)) <= _UNSHARED:
        return values
    shared = [count > _UNSHARED for count in map(sys.getrefcount, values)]
    return [copy_of(value) if each else value for value, each in zip(values, shared, strict=True)]


def copy_of(value: Any) -> Any:
    """Copy an array on its devices; return anything that is no array, is traced or was deleted itself."""
    if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer) or value.is_deleted():
        return value
    if len(value.sharding.device_set) == 1:
        return donatable_copy(value, str(value.dtype))  # uncommitted: JAX may still move it
    parts = [donatable_copy(shard.data, str(value.dtype)) for shard in value.addressable_shards]
    return jax.make_array_from_single_device_arrays(value.shape, value.sharding, parts)


# The reference count of an object that a list and a variable hold.
_UNSHARED = next(map(sys.getrefcount, [object()])) + 1


class UntracedRun(Protocol):
    """A run of code on numbers: see `muster.program.trace._eager.EagerRun`."""

    def opened(self, values: dict[int, jax.Array]) -> int: ...

    def gradients(self, total: jax.Array, sources: list[jax.Array], since: int | None) -> list[jax.Array]: ...


ACTIVE: ContextVar["VariableScope | None"] = ContextVar("muster_variable_scope", default=None)


def current_scope() -> "VariableScope | None":
    """Return the scope of the step that this thread is tracing, if any."""
    scope = ACTIVE.get()
    if scope is not None:
        scope.bindings.trace_keys.note_read()
    return scope


def active_scope(caller: str) -> "VariableScope":
    """Return the scope of the step that this thread is tracing.

    Args:
        caller: The function to name in the error.

    Raises:
        TraceError: This thread traces no step.
    """
    scope = current_scope()
    if scope is None:
        raise TraceError(
            f"{caller} was called outside of a step: call it inside of a model_fn, of a muster.function, or "
            "of what strategy.run calls."
        )
    return scope


def shared_with_step(key: Any) -> Any:
    """Return the value under a key of `sharing`, in the step that this thread is tracing; None if nothing."""
    scope = current_scope()
    return None if scope is None else scope.shared.get(key)


@contextlib.contextmanager
def sharing(key: Any, value: Any) -> Iterator[None]:
    """Share a value, under a key, with the code of the step that is traced, in a ``with`` block."""
    shared = active_scope("sharing").shared
    before = shared.get(key)
    shared[key] = value
    try:
        yield
    finally:
        shared[key] = before


@dataclass
class RunMode:
    """Says how code runs: recorded, on a state, or on numbers.

    Attributes:
        records: Whether it is recorded, to note what it does: variables have another value at each read.
        has_stand_ins: Whether other values of the same shape are in the place of some.
        eager: Computes gradients when the code runs untraced, on numbers; None while it is traced.
    """

    records: bool = False
    has_stand_ins: bool = False
    eager: UntracedRun | None = None


class VariableScope(keras.StatelessScope):  # type: ignore[misc]  # keras is untyped
    """Gives variables their values while code runs in it, and collects assignments and outputs.

    Args:
        replicas: The replicas that run this code in parallel; None if there is only one.

    Attributes:
        bindings: The variables that the code has used so far, and their values.
        assignments: What it assigned to them.
        mode: How it runs.
        outputs: The values that it named.
        penalties: The (path, value) pairs of ``add_penalty``.
        global_step: The variable that counts steps, once the code has asked for it.
        has_labels: Whether a loss of class labels has been computed, which is NaN for labels out of range.
        shared: What parts of the code that do not know each other share, by key.
        steps: The steps of optimizers that are held back; None if they are taken at once.
    """

    def __init__(self, replicas: Replicas | None = None) -> None:
        super().__init__(collect_losses=True, initialize_variables=True)
        self.bindings = Bindings(self.state_mapping)
        self.assignments = Assignments(self.bindings, replicas)
        self.mode = RunMode()
        self.outputs = NamedOutputs()
        self.penalties: list[tuple[str, jax.Array]] = []
        self.global_step: Any = None
        self.has_labels = False
        self.shared: dict[Any, Any] = {}
        self.steps: list[Any] | None = None

    @property
    def replicas(self) -> Replicas | None:
        """The replicas that run the code now; None for all at once, or if there is only one."""
        return self.assignments.replicas

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call ``function(*args)`` in this scope."""
        token = ACTIVE.set(self)
        try:
            with no_stop_iteration("The code of a step", TraceError), patched_keras(), self:
                with self.on(self.replicas):
                    return function(*args)
        finally:
            ACTIVE.reset(token)

    @contextlib.contextmanager
    def on(self, replicas: Replicas | None) -> Iterator[None]:
        """Run code as one of some replicas, or for all of them at once."""
        before, self.assignments.replicas = self.replicas, replicas
        try:
            with self.bindings.trace_keys.of(None if replicas is None else replicas.kind):
                yield
        finally:
            self.assignments.replicas = before

    @abstractmethod
    def created(self, variable: Any, initializer: Any) -> None:
        """Give a variable that Keras has just created its value.

        Args:
            variable: The variable, without a value.
            initializer: A callable (shape, dtype) -> array, or an array.
        """

    def values_of_new(self) -> dict[int, jax.Array]:
        """Return the known initial values of variables that the code has created, by their ids."""
        return {}

    def start_from(self, variable: Any, read: Callable[[], np.ndarray[Any, Any]]) -> None:
        """Let a variable that the code has created start from another value than its initializer's.

        Args:
            variable: The variable.
            read: Returns the value, of the variable's shape; called if it is needed.

        Raises:
            TraceError: This scope does not start variables.
        """
        raise TraceError(
            f"The variable {variable.path} cannot start from a checkpoint here: it can in a model_fn."
        )

    def may_use(self, variable: Any) -> bool:
        """Return whether the code in this scope may use a variable: it may have to create its own."""
        return True

    @abstractmethod
    def check_constant(self, variable: Any) -> None:
        """Raise an error if code in this scope must not assign a NumPy array to a variable."""

    @abstractmethod
    def get_current_value(self, variable: Any) -> jax.Array:
        """Return the current value of a variable."""

    def read(self, value: Any) -> jax.Array:
        """Return the current value of a variable, or anything else as an array."""
        if isinstance(value, keras.Variable):
            return self.get_current_value(value)
        return value if isinstance(value, jax.Array) else jnp.asarray(value)

    def versions(self, value: Any) -> list[jax.Array]:
        """Return all values that a variable has had in this run, the current one last; or an array itself."""
        earlier = self.assignments.history.earlier(value) if isinstance(value, keras.Variable) else []
        return [*earlier, self.read(value)]

    def add_update(self, update: tuple[Any, jax.Array]) -> None:
        """Assign to a variable; Keras calls this."""
        variable, value = update
        self.get_current_value(variable)
        self.assignments.assign(variable, value)


def _variable_init(original: Callable[..., None]) -> Callable[..., None]:
    def init(
        self: Any, initializer: Any, shape: Any = None, dtype: Any = None, *args: Any, **kw: Any
    ) -> None:
        scope = ACTIVE.get()
        note_origin(self)
        storage = storage_for(self, kw.get("name"))
        if storage is not None:
            keep_elsewhere(self, storage)
        if scope is None:
            original(self, initializer, shape, dtype, *args, **kw)
            check_new(self)
            if storage is not None:
                create_elsewhere(self)
            return None
        if isinstance(initializer, str):
            initializer = keras.initializers.get(initializer)
        if not callable(initializer):
            initializer = _as_array(initializer, dtype)
            shape, dtype = initializer.shape, initializer.dtype

        def value(shape: Any, dtype: Any = None) -> jax.Array:
            # Keras asks again after it inferred shapes, and when the scope ends, even by an error.
            known: Any = scope.state_mapping.get(id(self))
            if known is None:
                known = jnp.zeros(shape, dtype)
            made: jax.Array = getattr(known, "rows", known)  # of a hashed table any array: nobody reads it
            return made

        original(self, value, shape, dtype, *args, **kw)
        check_new(self)
        scope.created(self, initializer)
        return None

    return init


def _as_array(value: Any, dtype: Any) -> jax.Array:
    """Turn a constant initial value into an array; a traced one stays traced, to be evaluated afterwards."""
    if isinstance(value, keras.Variable):
        value = value.value
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value)):
        return keras.ops.convert_to_tensor(value, dtype=dtype)  # type: ignore[no-any-return]
    if not isinstance(value, jax.Array):
        value = np.asarray(value)
    dtype = value.dtype if dtype is None else keras.backend.standardize_dtype(dtype)
    return donatable_copy(value, str(jax.dtypes.canonicalize_dtype(dtype)))


def _checked_assign(original: Callable[..., Any]) -> Callable[..., Any]:
    def assign(self: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        scope = ACTIVE.get()
        if scope is not None and isinstance(value, np.ndarray):
            scope.check_constant(self)
        if scope is None:
            refuse_to_add(self)
            if isinstance(value, keras.Variable):  # else both share an array, which a step may overwrite
                value = copy_of(value.value)
        result = original(self, value, *args, **kwargs)
        # What it holds now, so that derivatives end there for those who use the result, too.
        return result if scope is None else scope.assignments.result(self, result)

    return assign


wrap_in_scopes(keras.Variable, "__init__", _variable_init)
wrap_in_scopes(keras.Variable, "assign", _checked_assign)
