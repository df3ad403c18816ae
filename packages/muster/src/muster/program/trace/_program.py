"""Trace user code into a pure step over the variables that it creates, which are bound to given values."""

import contextlib
import functools
import gc
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex

from muster import cpu
from muster._arrays import AnyArray, LazyArray, dtype_named
from muster._errors import OutsideVariableError, TraceError, VariableMismatchError
from muster._row_ids import HASHED_ROWS
from muster.checkpoint import MappedArray
from muster.program._replicas import Replicas
from muster.program.gradients._resolve import resolve
from muster.program.passes._gradient_markers import has_gradient_markers, sum_p
from muster.program.passes._jaxprs import AtomValues, contains, needed_equations
from muster.program.passes._loops import with_wide_products
from muster.program.passes._markers import with_rereads, without_assigned
from muster.program.passes._row_updates import with_row_updates
from muster.program.passes._rows import whole_step
from muster.program.passes._served import push_p
from muster.program.passes._sparse_gradients import with_sparse_gradients
from muster.program.passes._table_updates import with_updates_by_rows
from muster.program.trace._eager import Changes, EagerRun
from muster.program.trace._outputs import Output
from muster.program.variables._initial_values import InitialValue, donatable_copy
from muster.program.variables._keyed_table import KeyedTable
from muster.program.variables._origins import VariableKind, kind_of_new, seeds_from
from muster.program.variables._variable_scope import VariableScope
from muster.program.variables._variable_table import VariableSpec
from muster.program.variables.keras_internals import fresh_names

State = dict[str, jax.Array]
Result = TypeVar("Result")


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    """Pause Python's garbage collector while a step is traced: it would take a third of the time.

    A trace makes many objects that stay until its end. What it leaves behind is collected right after it.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def compute_traced(
    step: Callable[..., Result], state: State, *args: Any, only_results: bool = False
) -> Result:
    """Compute ``step(state, *args)`` after resolving its gradients and applying the passes.

    Args:
        step: Takes a state and arguments; returns arrays in nested structures.
        state: Its state.
        args: Its arguments.
        only_results: Whether to leave out whatever the results do not need, such as prints and, if they are
            not among the results, gradients.
    """
    closed, shapes = jax.make_jaxpr(step, return_shape=True)(state, *args)
    if only_results:
        eqns, _ = needed_equations(closed.jaxpr.eqns, closed.jaxpr.outvars)
        closed = jex.ClosedJaxpr(closed.jaxpr.replace(eqns=eqns), closed.consts)
    leaves = jax.tree.leaves((state, args))
    closed = without_assigned(with_rereads(jax.make_jaxpr(resolve(closed))(*leaves)))
    is_whole, has_replicas = not whole_step().takes_markers, contains(closed, sum_p)
    if is_whole and has_gradient_markers(closed):
        closed = jax.make_jaxpr(with_sparse_gradients(closed))(*leaves)
    if contains(closed, jax.lax.scan_p):
        closed = jax.make_jaxpr(with_wide_products(closed))(*leaves)
    flat = (_updated_by_rows(closed, has_replicas) if is_whole else jex.jaxpr_as_fun(closed))(*leaves)
    result: Result = jax.tree.unflatten(jax.tree.structure(shapes), flat)
    return result


def _updated_by_rows(closed: jex.ClosedJaxpr, has_replicas: bool) -> Callable[..., list[jax.Array]]:
    """Return a function of flat arguments that updates tables by rows, where that is possible.

    Adding scaled rows to a table one by one takes less time than adding up those of an id first, which gives
    what the whole gradient gives, bit for bit, and so what replicas that send that have.
    """
    if not contains(closed, jax.lax.scatter_add_p):  # there are no sums of rows
        return jex.jaxpr_as_fun(closed)  # type: ignore[no-any-return]
    if contains(closed, push_p):  # servers update tables
        return with_row_updates(closed)
    if has_replicas:
        return with_row_updates(with_updates_by_rows(closed))
    return jex.jaxpr_as_fun(  # type: ignore[no-any-return]
        with_updates_by_rows(jax.make_jaxpr(with_row_updates(closed))(*closed.in_avals))
    )


def shape_of(value: AnyArray) -> jax.ShapeDtypeStruct:
    """Return the shape and dtype of an array or number."""
    return jax.ShapeDtypeStruct(jnp.shape(value), jnp.result_type(value))


_value_to_come_p = jex.Primitive("muster_value_to_come")
_value_to_come_p.def_abstract_eval(lambda *, of: jax.core.ShapedArray(of.shape, of.dtype))
# Should an initial value of another variable be computed from it, it is made after all.
_value_to_come_p.def_impl(lambda *, of: jax.device_put(np.asarray(of)))


def value_to_come(of: LazyArray) -> Any:
    """Return what stands for a value while code is traced; it is made only if it is needed."""
    return _value_to_come_p.bind(of=of)


class ProgramScope(VariableScope):
    """Gives the variables that code creates the values of a state, or initial values while it is recorded.

    Args:
        state: Path -> value; None to record.
        known: Path -> value to use instead of an initializer where shapes agree; to record.
        known_local: Whether `known` counts for local variables too.
        seed: Seeds Keras' initializers; None leaves them random.
        replicas: The replicas that run this code in parallel; None if there is only one.

    Attributes:
        records: Whether it records.
        initial: The initial values of the variables created so far; to record. Large ones may lie in
            files, or are not made yet.
    """

    def __init__(
        self,
        state: Mapping[str, jax.Array] | None = None,
        *,
        known: Mapping[str, AnyArray] | None = None,
        known_local: bool = False,
        seed: int | None = None,
        replicas: Replicas | None = None,
    ) -> None:
        super().__init__(replicas)
        self.records = state is None
        self.initial: list[jax.Array | LazyArray] = []
        self._state = state
        self._known = known or {}
        self._known_local = known_local
        self._seed = seed
        self._created: dict[int, Any] = {}

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        # Without a seed, keras.utils.set_random_seed determines initial values; a given state needs none.
        recording = self._state is None
        seeds = None if recording and self._seed is None else random.Random(self._seed or 0)
        with fresh_names(), seeds_from(seeds):
            return super().run(function, *args)

    def created(self, variable: Any, initializer: Any) -> None:
        spec = self.bindings.table.add(variable, kind_of_new())
        if self._state is None:
            initial = self._initial_value(spec, initializer)
            if isinstance(initial, LazyArray) and self.assignments.taken is not None:
                initial = donatable_copy(initial, spec.dtype)  # what stands for it is known on that way only
            self.initial.append(initial)
            value = value_to_come(initial) if isinstance(initial, LazyArray) else initial
        else:
            value = self._value_in(self._state, spec)
        self.bindings.values[id(variable)] = self._created[id(variable)] = value
        self.assignments.fold_replica_into_seed(variable, self.get_current_value)

    def values_of_new(self) -> dict[int, jax.Array]:
        return self._created

    def start_from(self, variable: Any, read: Callable[[], np.ndarray[Any, Any]]) -> None:
        spec = self.bindings.table.spec(variable)
        if self._state is None and self._known_value(spec) is None:
            self.initial[self.bindings.table.specs.index(spec)] = _started(read(), spec)

    def get_current_value(self, variable: Any) -> jax.Array:
        self.bindings.note_read(variable)
        try:
            value = self.bindings.values[id(variable)]
            # Code that does not train may still ask for gradients of a table, which nothing needs.
            return jnp.zeros(value.shape, value.dtype) if isinstance(value, KeyedTable) else value
        except KeyError:
            raise OutsideVariableError(
                f"The variable {variable.path!r} with shape {tuple(variable.shape)} was built outside of the "
                "function that uses it. Build every layer, model, optimizer and variable inside of it: "
                "muster binds only those to the state that it trains, saves and restores."
            ) from None

    def may_use(self, variable: Any) -> bool:
        return id(variable) in self.bindings.values

    def check_constant(self, variable: Any) -> None:
        """Refuse to set a trained weight to the same value in every step, as ``set_weights`` would."""
        self.get_current_value(variable)
        spec = self.bindings.table.spec(variable)
        if spec.kind is VariableKind.WEIGHT and spec.trainable:
            raise TraceError(
                f"The code assigns a constant to the weight {spec}, which would undo its training in every "
                "step. To start from given weights, use an initializer, or warm_start_from of the Estimator."
            )

    def _initial_value(self, spec: VariableSpec, initializer: Any) -> jax.Array | LazyArray:
        known = self._known_value(spec)
        if known is not None:
            return _started(known, spec)
        later = InitialValue(initializer, spec.shape, spec.dtype)
        return later if later.may_wait else later.make()

    def _known_value(self, spec: VariableSpec) -> AnyArray | None:
        counts = spec.saved and (self._known_local or not spec.local)
        known = self._known.get(spec.path) if counts else None
        return known if known is not None and tuple(known.shape) == spec.shape else None

    def _value_in(self, state: Mapping[str, jax.Array], spec: VariableSpec) -> jax.Array:
        value = state.get(spec.path)
        if value is None or tuple(value.shape) != spec.shape or str(value.dtype) != spec.dtype:
            had = "nothing of that name" if value is None else f"{value.dtype}{list(value.shape)}"
            raise VariableMismatchError(
                f"This time the function built the variable {spec}; the first time it built {had}. It must "
                "build the same variables at every call: look for names, sizes or layers that depend on "
                "a counter, on randomness or on the size of the batch."
            )
        return value


def _started(value: Any, spec: VariableSpec) -> jax.Array | MappedArray:
    """Return a value from which a variable starts: a copy, or the value itself if it lies in a file."""
    if isinstance(value, MappedArray):
        return value if value.dtype == spec.dtype else value.astype(dtype_named(spec.dtype))
    return donatable_copy(value, spec.dtype)


Outputs = dict[str, Any]
Static = TypeVar("Static")


class Program(Generic[Static]):
    """User code as ``step: (state, *args) -> (state, outputs)``, pure in all of them.

    The constructor runs the function once, on abstract values, to learn which variables it creates. The
    step runs it again, once for each new shape of the arguments, with its variables bound to the state.

    Args:
        function: Called with ``args``; returns its outputs, a dict of arrays or of structures of them, and
            anything else that the caller wants back from the recording run. It creates its variables.
        args: Arrays or ``jax.ShapeDtypeStruct`` s, in nested structures.
        known: Path -> value to start from instead of an initializer, where the shapes agree.
        known_local: Whether `known` counts for metrics' variables, too.
        local_updates_only: Whether the step changes only metrics' variables and the states of generators,
            whatever the function does to others: for evaluation and predictions.
        seed: Makes initial values the same at every run; None draws new ones.

    Attributes:
        variables: The descriptions of the variables that the function creates, in order.
        initial: Path -> initial value. A step that donates its state consumes them. Large ones may lie in
            files (`MappedArray`), or are not made yet (`InitialValue`).
        pairs: The same, each with the variable of the recording run.
        static: The second value that the function returned.
        outputs: The shapes of the outputs by name, as ``jax.ShapeDtypeStruct`` s.
        summaries: Tag -> the output to write as a summary.
        offered: Name -> value of the recording run that becomes an output if it is asked for: `expose`.
    """

    def __init__(
        self,
        function: Callable[..., tuple[Outputs, Static]],
        *args: Any,
        known: Mapping[str, AnyArray] | None = None,
        known_local: bool = False,
        local_updates_only: bool = False,
        seed: int | None = None,
    ) -> None:
        cpu.prepare()
        self._function = function
        self._local_updates_only = local_updates_only
        scope = ProgramScope(known=known, known_local=known_local, seed=seed)

        def record(*args: Any) -> list[jax.Array]:
            returned, self.static = scope.run(function, *args)
            self.outputs = jax.tree.map(shape_of, {**scope.outputs.values(), **returned})
            return [value for value in scope.initial if isinstance(value, jax.core.Tracer)]

        with no_collections():
            closed = jax.make_jaxpr(record)(*args)
        self.variables = scope.bindings.table.specs
        self.pairs = scope.bindings.table.pairs
        self.initial: dict[str, Any] = dict(zip((v.path for v in self.variables), scope.initial, strict=True))
        computed = [path for path, value in self.initial.items() if isinstance(value, jax.core.Tracer)]
        self.initial.update(zip(computed, _evaluate_constants(closed, computed), strict=True))
        self.summaries: Mapping[str, Output] = dict(scope.outputs.summaries)
        self.offered: Mapping[str, jax.Array] = scope.outputs.offered
        self._wanted: set[str] = set()
        self._counters = scope.assignments.history.only_incremented_once(scope.bindings.table.pairs)
        self._updated = scope.assignments.history.counts(scope.bindings.table.pairs)
        self._paths = {v.path for v in self.variables}

    def updates(self, path: str) -> bool:
        """Return whether the function assigns to a variable."""
        return path in self._updated

    def adds_one(self, path: str) -> bool:
        """Return whether each step adds exactly one to a variable, so that its value can be predicted."""
        return path in self._counters

    def expose(self, name: str) -> None:
        """Let steps that are traced from now on return a value that the function offers, by its name."""
        self._wanted.add(name)
        self.outputs[name] = shape_of(self.offered[name])

    def step(self, state: State, *args: Any, replicas: Replicas | None = None) -> tuple[State, Outputs]:
        """Run the function on a state: what a strategy compiles.

        Args:
            state: Path -> value of every variable.
            args: Arguments in the structure that the constructor was given, this replica's; shapes may
                differ.
            replicas: The replicas that run this step in parallel; None if there is only one.

        Returns:
            The new state, and the outputs: those that the function named (``name_output``), and those
            that it returned.

        Raises:
            VariableMismatchError: The function creates other variables than when it was recorded.
        """

        def replay(state: State, *args: Any) -> tuple[State, Outputs]:
            scope = self._scope(state, replicas)
            return scope.run(self._run_in, scope, state, *args)  # type: ignore[no-any-return]

        return compute_traced(replay, state, *args)

    def compute_outputs(self, names: Collection[str], state: State, *args: Any) -> Outputs:
        """Run the function on a state that stays as it is, and compute some of the outputs, and no more.

        Args:
            names: The names of the outputs.
            state: As for `step`, and so is ``args``.
            args: See there.

        Raises:
            VariableMismatchError: As for `step`.
        """

        def replay(state: State, *args: Any) -> Outputs:
            scope = self._scope(state)
            _, outputs = scope.run(self._run_in, scope, state, *args)
            return {name: outputs[name] for name in names}

        return compute_traced(replay, state, *args, only_results=True)

    def step_eagerly(self, state: State, *args: Any) -> tuple[State, Outputs]:
        """Run the step untraced, for debugging: ``print`` and breakpoints see numbers.

        The function runs once more for each gradient that it asks for, under ``jax.grad``; that later run
        sees tracers.
        """
        return self._run_eagerly(jax.tree.map(jnp.array, (state, args)))  # copied: they are told apart

    def zeros(self) -> State:
        """Return a state of zeros, for a run whose results do not matter."""

        def zero(variable: VariableSpec) -> Any:
            if variable.shape[:1] == (HASHED_ROWS,):
                return KeyedTable.empty(variable.shape[1:], variable.dtype)
            return jnp.zeros(variable.shape, variable.dtype)

        return {v.path: zero(v) for v in self.variables}

    def _run_eagerly(
        self, inputs: tuple[State, tuple[Any, ...]], changes: Changes = (), until: int = -1
    ) -> tuple[State, Outputs]:
        """Run on numbers, with changes, up to gradient number `until`; to the end if that is -1."""
        leaves = jax.tree.leaves(inputs[1]), list(inputs[0].values())
        run = EagerRun(lambda: leaves, functools.partial(self._run_eagerly, inputs), until, changes)
        state, args = jax.tree.map(run.current, inputs)
        scope = self._scope(state)
        scope.mode.eager = run
        return scope.run(self._run_in, scope, state, *args)  # type: ignore[no-any-return]

    def _scope(self, state: State, replicas: Replicas | None = None) -> ProgramScope:
        scope = ProgramScope(state, replicas=replicas)
        scope.outputs.wanted = tuple(self._wanted)
        return scope

    def _run_in(self, scope: ProgramScope, before: State, *args: Any) -> tuple[State, Outputs]:
        """Run the function in its scope; return the new state and the outputs."""
        outputs, _ = self._function(*args)
        scope.assignments.synchronize()
        after = scope.bindings.state()
        missing = sorted(self._paths - after.keys())
        if missing:
            raise VariableMismatchError(
                f"This time the function did not build {', '.join(missing)}, which it built the first time. "
                "It must build the same variables at every call."
            )
        if self._local_updates_only:
            kept = [v.path for v in self.variables if not v.local and v.kind is not VariableKind.SEED]
            after |= {path: before[path] for path in kept}
        return after, {**scope.outputs.values(scope.replicas), **outputs}


def _evaluate_constants(closed: jex.ClosedJaxpr, paths: list[str]) -> list[jax.Array]:
    """Compute initial values that the function computed itself; they must not depend on its input."""
    jaxpr = closed.jaxpr
    eqns, free = needed_equations(jaxpr.eqns, jaxpr.outvars)
    if free.intersection(jaxpr.invars):
        raise TraceError(
            f"The initial value of one of the variables {', '.join(paths)} depends on the input. Give an "
            "initializer, or a value that is the same for every batch."
        )
    values = AtomValues(zip(jaxpr.constvars, closed.consts, strict=True))
    values.compute(eqns)
    return values.read(jaxpr.outvars)
