"""Trace user code into a pure step over the variables that it creates."""

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
from jax.extend import core as jex

from muster import cpu
from muster._arrays import AnyArray
from muster._errors import TraceError, VariableMismatchError
from muster.program._replicas import Replicas
from muster.program.passes._jaxprs import Values, needed_equations
from muster.program.trace._compute import State, compute_traced, shape_of
from muster.program.trace._eager import Changes, EagerRun
from muster.program.trace._outputs import Output
from muster.program.trace._program_scope import ProgramScope
from muster.program.variables._origins import VariableKind

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

        closed = jax.make_jaxpr(record)(*args)
        self.variables = scope.table.specs
        self.pairs = scope.table.pairs
        self.initial: dict[str, Any] = dict(zip((v.path for v in self.variables), scope.initial, strict=True))
        computed = [path for path, value in self.initial.items() if isinstance(value, jax.core.Tracer)]
        self.initial.update(zip(computed, _evaluate_constants(closed, computed), strict=True))
        self.summaries: Mapping[str, Output] = dict(scope.outputs.summaries)
        self.offered: Mapping[str, jax.Array] = scope.outputs.offered
        self._wanted: set[str] = set()
        self._counters = scope.assignments.only_incremented_once(scope.table.pairs)
        self._updated = scope.assignments.counts(scope.table.pairs)
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
        return {v.path: jnp.zeros(v.shape, v.dtype) for v in self.variables}

    def _run_eagerly(
        self, inputs: tuple[State, tuple[Any, ...]], changes: Changes = (), until: int = -1
    ) -> tuple[State, Outputs]:
        """Run on numbers, with changes, up to gradient number `until`; to the end if that is -1."""
        leaves = jax.tree.leaves(inputs[1]), list(inputs[0].values())
        run = EagerRun(lambda: leaves, functools.partial(self._run_eagerly, inputs), until, changes)
        state, args = jax.tree.map(run.current, inputs)
        scope = self._scope(state)
        scope.eager = run
        return scope.run(self._run_in, scope, state, *args)  # type: ignore[no-any-return]

    def _scope(self, state: State, replicas: Replicas | None = None) -> ProgramScope:
        scope = ProgramScope(state, replicas=replicas)
        scope.outputs.wanted = tuple(self._wanted)
        return scope

    def _run_in(self, scope: ProgramScope, before: State, *args: Any) -> tuple[State, Outputs]:
        """Run the function in its scope; return the new state and the outputs."""
        outputs, _ = self._function(*args)
        scope.synchronize()
        after = scope.state()
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
    values = Values(zip(jaxpr.constvars, closed.consts, strict=True))
    values.compute(eqns)
    return values.read(jaxpr.outvars)
