"""Variables of traced code: what it creates is bound to state that is passed in.

User code builds Keras models as usual. While it runs in a ``VariableScope``, every ``keras.Variable``
that it creates takes its value from the scope: on the recording run the value of its initializer, on a
later run the entry of the state with the variable's path. Updates stay in the scope, so the run is pure.

Keras initialises variables again that are created while it infers shapes; therefore it is the
*initializer* that is replaced, not the value afterwards.
"""

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from muster._errors import OutsideVariableError, TraceError, VariableMismatchError
from muster._keras import keras
from muster.program.variables._initial_values import initial_value, own_array
from muster.program.variables._keras_internals import fresh_names, seeds_from
from muster.program.variables._replicas import Replicas
from muster.program.variables._unshared_values import copy_of
from muster.program.variables._watching import (
    VariableKind,
    check_new,
    kind_of_new,
    note_origin,
    refuse_to_add,
    watched_creation,
    wrap_in_scopes,
)

Array = Any  # a jax.Array, or a tracer of one


@dataclass(frozen=True, kw_only=True)
class VariableSpec:
    """What is known of a variable without its value.

    Attributes:
        path: its unique name, such as ``sequential/dense/kernel``.
        shape: its shape, global.
        dtype: its dtype's name.
        trainable: whether ``minimize`` takes it by default.
        kind: what it belongs to.
        aggregation: how replicas' assignments combine, as Keras carries it.
        own: whether each replica keeps a value of its own from step to step.
    """

    path: str
    shape: tuple[int, ...]
    dtype: str
    trainable: bool
    kind: "VariableKind"
    aggregation: str
    own: bool = False

    @property
    def local(self) -> bool:
        """Whether it belongs to a metric: kept by training, started afresh by each evaluation."""
        return self.kind is VariableKind.METRIC

    def __str__(self) -> str:
        return f"{self.path} {self.dtype}{list(self.shape)}"


_ACTIVE: ContextVar["VariableScope | None"] = ContextVar("muster_variable_scope", default=None)


def current_scope() -> "VariableScope | None":
    """The scope of the step that is being traced in this thread, if one is."""
    return _ACTIVE.get()


def active_scope(caller: str) -> "VariableScope":
    """The scope of the step that is being traced in this thread.

    Raises:
        TraceError: if there is none; ``caller`` is named in the message.
    """
    scope = _ACTIVE.get()
    if scope is None:
        raise TraceError(
            f"{caller} was called outside of a step: call it inside of a model_fn, of a muster.function, or "
            "of what strategy.run calls."
        )
    return scope


class VariableScope(keras.StatelessScope):  # type: ignore[misc]  # keras is untyped
    """Binds the variables that code creates to given values, and collects their updates.

    Args:
        state: path -> value, for a run on given state; None for the recording run.
        known: path -> value, used on the recording run instead of an initializer where shapes agree.
        known_local: whether that goes for local variables too.
        seed: seeds the draws from which Keras makes initializers; None leaves them random.
        replicas: the copies of this run that run beside it; None if it runs alone.
        eager_gradients: computes gradients when the code runs untraced, see ``Program.step_eagerly``.
    """

    def __init__(
        self,
        state: Mapping[str, Array] | None = None,
        *,
        known: Mapping[str, Array] | None = None,
        known_local: bool = False,
        seed: int | None = None,
        replicas: Replicas | None = None,
        eager_gradients: Callable[[Array, list[Array]], list[Array]] | None = None,
    ) -> None:
        super().__init__(collect_losses=True, initialize_variables=True)
        self.replicas = replicas
        self.eager_gradients = eager_gradients
        self.outputs: dict[str, Array] = {}
        self.summaries: dict[str, str] = {}
        self.penalties: list[tuple[str, Array]] = []
        self.specs: list[VariableSpec] = []
        self.initial: list[Array] = []
        self.global_step: Any = None
        self._state = state
        self._known = known or {}
        self._known_local = known_local
        self._earlier: dict[int, list[Array]] = {}
        self._places: dict[int, int] = {}
        self._updates: Counter[int] = Counter()
        self._increments: Counter[int] = Counter()
        self._seed = seed
        self._variables: list[Any] = []  # holds the variables, so that their ids stay theirs
        self._paths: set[str] = set()
        self._before: dict[int, Array] = {}
        self._in_sync = False
        self._reduced: list[tuple[Array, Array]] = []

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call ``function(*args)`` in this scope."""
        # Without a seed, keras.utils.set_random_seed decides on initial values; on given state, none counts.
        recording = self._state is None
        seeds = None if recording and self._seed is None else random.Random(self._seed or 0)
        with fresh_names(), seeds_from(seeds), entered(self):
            return function(*args)

    @property
    def pairs(self) -> list[tuple[VariableSpec, Any]]:
        """What is known of each variable so far, and the variable."""
        return list(zip(self.specs, self._variables, strict=True))

    @property
    def variables(self) -> list[Any]:
        """The variables created so far, in order."""
        return list(self._variables)

    def state(self) -> dict[str, Array]:
        """path -> current value of every variable created."""
        return {
            spec.path: self.state_mapping[id(variable)]
            for spec, variable in zip(self.specs, self._variables, strict=True)
        }

    def read(self, value: Any) -> Array:
        """The value of a variable, or the value itself as an array."""
        if isinstance(value, keras.Variable):
            return self.get_current_value(value)
        return value if isinstance(value, jax.Array) else jnp.asarray(value)

    def reduced(self, value: Array) -> Array:
        """The mean of a value over the replicas, or what ``note_reduced`` said of this very value."""
        if self.replicas is None:
            return value
        known = next((result for of, result in self._reduced if of is value), None)
        return self.replicas.mean([value])[0] if known is None else known

    def note_reduced(self, value: Array, result: Array) -> None:
        """Remember what became of a value when the replicas' values met."""
        self._reduced.append((value, result))

    def common_outputs(self) -> dict[str, Array]:
        """The named outputs; numbers of the replicas are averaged, rows and integers stay each replica's."""
        if self.replicas is None:
            return dict(self.outputs)
        numbers = {
            name: value
            for name, value in self.outputs.items()
            if value is not None and value.ndim == 0 and jnp.issubdtype(value.dtype, jnp.inexact)
        }
        averaged = self.replicas.mean(list(numbers.values()))
        return {**self.outputs, **dict(zip(numbers, averaged, strict=True))}

    def get_current_value(self, variable: Any) -> Array:
        try:
            return self.state_mapping[id(variable)]
        except KeyError:
            raise OutsideVariableError(
                f"The variable {variable.path!r} with shape {tuple(variable.shape)} was built outside of the "
                "function that uses it. Build every layer, model, optimizer and variable inside of it: "
                "muster binds only those to the state that it trains, saves and restores."
            ) from None

    def add_update(self, update: tuple[Any, Array]) -> None:
        variable, value = update
        self.get_current_value(variable)
        self.assigned(variable, value)

    def assigned(self, variable: Any, value: Array) -> None:
        """Take in what a variable, which has a value, becomes."""
        self._updates[id(variable)] += 1
        self._earlier.setdefault(id(variable), []).append(self.state_mapping[id(variable)])
        if self.replicas is not None and not self._in_sync:
            self._before.setdefault(id(variable), self.state_mapping[id(variable)])
        self.state_mapping[id(variable)] = value

    def versions(self, value: Any) -> list[Array]:
        """The values that a variable has had in this run, the current one last; of an array, itself."""
        earlier = self._earlier.get(id(value), []) if isinstance(value, keras.Variable) else []
        return [*earlier, self.read(value)]

    def refuse_constant(self, variable: Any) -> None:
        """Refuse to give a trained weight the same value in every step, as ``set_weights`` would."""
        self.get_current_value(variable)
        spec = self.specs[self._places[id(variable)]]
        if spec.kind is VariableKind.WEIGHT and spec.trainable:
            raise TraceError(
                f"The code assigns a constant to the weight {spec}, which would undo its training in every "
                "step. To start from given weights, use an initializer, or warm_start_from of the Estimator."
            )

    def increment(self, variable: Any) -> None:
        """Add one to a variable."""
        variable.assign_add(1)
        self._increments[id(variable)] += 1

    def updates(self) -> dict[str, int]:
        """path -> how often the code assigned to the variable, of those that it assigned to."""
        pairs = zip(self.specs, self._variables, strict=True)
        return {spec.path: count for spec, variable in pairs if (count := self._updates[id(variable)])}

    def only_incremented_once(self) -> set[str]:
        """The paths of the variables to which the code did nothing but add one, once."""
        return {
            spec.path
            for spec, variable in zip(self.specs, self._variables, strict=True)
            if self._updates[id(variable)] == self._increments[id(variable)] == 1
        }

    def created(self, variable: Any, initializer: Any) -> None:
        """Take in a variable that Keras has just created.

        Args:
            variable: the variable, without a value.
            initializer: a callable (shape, dtype) -> array, or an array.
        """
        spec = self.spec_of(variable, kind_of_new())
        self.register(spec, variable)
        if self._state is None:
            value = self._initial_value(spec, initializer)
            self.initial.append(value)
        else:
            value = self._bound_value(spec)
            if self.replicas is not None and spec.kind is VariableKind.SEED:
                value = self.replicas.own_seed(value)
                self._before[id(variable)] = value
        self.state_mapping[id(variable)] = value

    def spec_of(self, variable: Any, kind: VariableKind, dtype: Any = None) -> VariableSpec:
        """What is known of a variable, under a path that no other one in this scope has."""
        dtype = keras.backend.standardize_dtype(variable.dtype) if dtype is None else dtype
        path, count = variable.path, 0
        while path in self._paths:
            count += 1
            path = f"{variable.path}_{count}"
        return VariableSpec(
            path=path,
            shape=tuple(variable.shape),
            dtype=str(jax.dtypes.canonicalize_dtype(dtype)),
            trainable=bool(variable.trainable),
            kind=VariableKind.SEED if variable.name == "seed_generator_state" else kind,
            aggregation=variable.aggregation,
        )

    def register(self, spec: VariableSpec, variable: Any) -> None:
        """Take in a variable, whose value is bound elsewhere."""
        self._paths.add(spec.path)
        self._places[id(variable)] = len(self.specs)
        self.specs.append(spec)
        self._variables.append(variable)

    def _initial_value(self, spec: VariableSpec, initializer: Any) -> Array:
        known = self._known.get(spec.path) if self._known_local or not spec.local else None
        if known is not None and tuple(known.shape) == spec.shape:
            return own_array(known, spec.dtype)
        if not callable(initializer):
            return initializer
        return initial_value(initializer, spec.shape, spec.dtype)

    def _bound_value(self, spec: VariableSpec) -> Array:
        value = self._state.get(spec.path) if self._state is not None else None
        if value is None or tuple(value.shape) != spec.shape or str(value.dtype) != spec.dtype:
            had = "nothing of that name" if value is None else f"{value.dtype}{list(value.shape)}"
            raise VariableMismatchError(
                f"This time the function built the variable {spec}; the first time it built {had}. It must "
                "build the same variables at every call: look for names, sizes or layers that depend on "
                "a counter, on randomness or on the size of the batch."
            )
        return value

    @property
    def is_in_sync(self) -> bool:
        """Whether updates that are made now are the same on all replicas."""
        return self._in_sync

    @contextlib.contextmanager
    def in_sync(self) -> Iterator[None]:
        """Updates made meanwhile are the same on all replicas."""
        before, self._in_sync = self._in_sync, True
        try:
            yield
        finally:
            self._in_sync = before

    def synchronize(self, *kinds: VariableKind) -> None:
        """Let the replicas' updates meet: afterwards all of them hold the same values.

        Args:
            kinds: only variables of these kinds; none for all.

        Raises:
            TraceError: if a replica assigned to a variable without saying how assignments combine.
        """
        if self.replicas is None:
            return
        means, sums, firsts = [], [], []
        for spec, variable in zip(self.specs, self._variables, strict=True):
            key = id(variable)
            if key not in self._before or (kinds and spec.kind not in kinds):
                continue
            match spec:
                case VariableSpec(kind=VariableKind.SEED):
                    self.state_mapping[key] = self.replicas.common_seed(self.state_mapping[key])
                    del self._before[key]
                case VariableSpec(kind=VariableKind.METRIC) | VariableSpec(aggregation="sum"):
                    sums.append(key)
                case VariableSpec(aggregation="only_first_replica"):
                    firsts.append(key)
                case VariableSpec(kind=VariableKind.WEIGHT) | VariableSpec(aggregation="mean"):
                    means.append(key)
                case _:
                    raise TraceError(
                        f"The replicas assign to the variable {spec}, which does not say how their "
                        "values combine. Build it with aggregation='mean', 'sum' or 'only_first_replica'."
                    )
        added = self.replicas.sum([self.state_mapping[k] - self._before[k] for k in sums])
        averaged = self.replicas.mean([self.state_mapping[k] for k in means])
        self.state_mapping.update({k: self._before[k] + a for k, a in zip(sums, added, strict=True)})
        self.state_mapping.update(zip(means, averaged, strict=True))
        self.state_mapping.update(
            zip(firsts, self.replicas.first([self.state_mapping[k] for k in firsts]), strict=True)
        )
        for key in (*sums, *means, *firsts):
            del self._before[key]


@contextlib.contextmanager
def entered(scope: VariableScope) -> Iterator[None]:
    """Let a scope be the active one of this thread."""
    token = _ACTIVE.set(scope)
    try:
        with watched_creation(), scope:
            yield
    finally:
        _ACTIVE.reset(token)


def _variable_init(original: Callable[..., None]) -> Callable[..., None]:
    def init(
        self: Any, initializer: Any, shape: Any = None, dtype: Any = None, *args: Any, **kw: Any
    ) -> None:
        scope = _ACTIVE.get()
        note_origin(self)
        if scope is None:
            original(self, initializer, shape, dtype, *args, **kw)
            return check_new(self)
        if isinstance(initializer, str):
            initializer = keras.initializers.get(initializer)
        if not callable(initializer):
            initializer = _as_array(initializer, dtype)
            shape, dtype = initializer.shape, initializer.dtype

        def value(shape: Any, dtype: Any = None) -> Array:
            # Keras asks again after it inferred shapes, and when the scope ends, even by an error.
            return scope.state_mapping.get(id(self), jnp.zeros(shape, dtype))

        original(self, value, shape, dtype, *args, **kw)
        check_new(self)
        scope.created(self, initializer)
        return None

    return init


def _as_array(value: Any, dtype: Any) -> Array:
    """A constant initial value as an array; a traced one stays traced, to be evaluated after the trace."""
    if isinstance(value, keras.Variable):
        value = value.value
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value)):
        return keras.ops.convert_to_tensor(value, dtype=dtype)
    if not isinstance(value, jax.Array):
        value = np.asarray(value)
    dtype = value.dtype if dtype is None else keras.backend.standardize_dtype(dtype)
    return own_array(value, str(jax.dtypes.canonicalize_dtype(dtype)))


def _checked_assign(original: Callable[..., Any]) -> Callable[..., Any]:
    def assign(self: Any, value: Any) -> Any:
        scope = _ACTIVE.get()
        if scope is not None and isinstance(value, np.ndarray):
            scope.refuse_constant(self)
        if scope is None:
            refuse_to_add(self)
            if isinstance(value, keras.Variable):  # else two have one array, which a step overwrites
                value = copy_of(value.value)
        return original(self, value)

    return assign


wrap_in_scopes(keras.Variable, "__init__", _variable_init)
wrap_in_scopes(keras.Variable, "assign", _checked_assign)
