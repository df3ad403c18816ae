"""A program: user code, traced into a pure step over the variables that it creates."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
from jax.extend import core as jex

from muster import cpu
from muster._errors import TraceError, VariableMismatchError
from muster.program.gradients._gradients import resolve
from muster.program.passes._jaxprs import contains, needed_equations, run_equations
from muster.program.passes._loops import with_wide_products
from muster.program.passes._row_updates import with_row_updates
from muster.program.trace._eager import eager_gradients
from muster.program.variables._replicas import Replicas
from muster.program.variables._variables import VariableScope, VariableSpec

Array = Any
State = dict[str, Array]
Outputs = dict[str, Any]
Static = TypeVar("Static")


class Program(Generic[Static]):
    """User code as ``step: (state, *args) -> (state, outputs)``, pure in all of them.

    The constructor runs the function once, on abstract values, to learn which variables it creates. The
    step runs it again, once for each new shape of the arguments, with its variables bound to the state.

    Args:
        function: called with ``args``; returns its outputs, a dict of arrays or of structures of them, and
            whatever else the caller wants back from the recording run. Variables are created inside of it.
        args: arrays or ``jax.ShapeDtypeStruct`` s, in nested structures.
        known: path -> value to start from in place of an initializer, where the shapes agree.
        known_local: whether that goes for metrics' variables too.
        local_updates_only: whether the step leaves all variables but metrics' as they are, whatever the
            function does to them: to evaluate.
        seed: makes initial values the same at every run; None draws them anew.

    Attributes:
        variables: what the function creates, in order.
        initial: path -> initial value. A step that donates its state consumes them.
        static: the second thing that the function returned.
        outputs: the shapes of the outputs by name, as ``jax.ShapeDtypeStruct`` s.
        summaries: tag -> the name of the output that is to be written as a summary.
    """

    def __init__(
        self,
        function: Callable[..., tuple[Outputs, Static]],
        *args: Any,
        known: Mapping[str, Array] | None = None,
        known_local: bool = False,
        local_updates_only: bool = False,
        seed: int | None = None,
    ) -> None:
        cpu.prepare()
        self._function = function
        self._local_updates_only = local_updates_only
        scope = VariableScope(known=known, known_local=known_local, seed=seed)

        def record(*args: Any) -> list[Array]:
            returned, self.static = scope.run(function, *args)
            named = {name: value for name, value in scope.outputs.items() if value is not None}
            self.outputs = jax.tree.map(shape_of, {**named, **returned})
            return [value for value in scope.initial if isinstance(value, jax.core.Tracer)]

        closed = jax.make_jaxpr(record)(*args)
        self.variables: tuple[VariableSpec, ...] = tuple(scope.specs)
        self.initial: State = dict(zip((v.path for v in self.variables), scope.initial, strict=True))
        computed = [path for path, value in self.initial.items() if isinstance(value, jax.core.Tracer)]
        self.initial.update(zip(computed, _evaluate_constants(closed, computed), strict=True))
        self.summaries: Mapping[str, str] = dict(scope.summaries)
        self._counters = scope.only_incremented_once()
        self._updated = scope.updates()
        self._paths = {v.path for v in self.variables}

    def updates(self, path: str) -> bool:
        """Whether the function assigns to a variable."""
        return path in self._updated

    def adds_one(self, path: str) -> bool:
        """Whether each step adds exactly one to a variable, so that its value is known without reading it."""
        return path in self._counters

    def step(self, state: State, *args: Any, replicas: Replicas | None = None) -> tuple[State, Outputs]:
        """Run the function on given state: what a strategy compiles.

        Args:
            state: path -> value of every variable.
            args: in the structure that the constructor was given; shapes may differ.
            replicas: the copies of the step that run beside this one, if any: ``args`` are this one's.

        Returns:
            The new state, and the outputs: those that the function named (``name_output``), and those
            that it returned.

        Raises:
            VariableMismatchError: if the function creates other variables than when it was recorded.
        """

        def replay(state: State, *args: Any) -> tuple[State, Outputs]:
            scope = VariableScope(state, replicas=replicas)
            return scope.run(self._finished_run, scope, state, *args)  # type: ignore[no-any-return]

        return finished(replay, state, *args)

    def step_eagerly(self, state: State, *args: Any) -> tuple[State, Outputs]:
        """The same step, untraced, for debugging: ``print`` and breakpoints see numbers.

        The function runs once more for each gradient that it asks for, under ``jax.grad``; that run sees
        tracers again, after the numbers have been seen.
        """
        return self._run_eagerly(jax.tree.map(jnp.asarray, (state, args)))

    def _run_eagerly(self, given: tuple[State, tuple[Any, ...]], until: int = -1) -> tuple[State, Outputs]:
        """Run on numbers, up to gradient number ``until``, if there is one."""
        leaves, structure = jax.tree.flatten(given)

        def again(changed: list[Array], until: int) -> None:
            self._run_eagerly(jax.tree.unflatten(structure, changed), until)

        gradients = eager_gradients(lambda: leaves, again, until)
        state, args = given
        scope = VariableScope(state, eager_gradients=gradients)
        return scope.run(self._finished_run, scope, state, *args)  # type: ignore[no-any-return]

    def _finished_run(self, scope: VariableScope, before: State, *args: Any) -> tuple[State, Outputs]:
        """Run the function in its scope, and take the state that it leaves."""
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
            after |= {v.path: before[v.path] for v in self.variables if not v.local}
        named = {name: value for name, value in scope.common_outputs().items() if value is not None}
        return after, {**named, **outputs}


def finished(replay: Callable[..., tuple[State, Any]], state: State, *args: Any) -> tuple[State, Any]:
    """Trace a function of state, resolve what muster has marked in it, and compute it."""
    closed, shapes = jax.make_jaxpr(replay, return_shape=True)(state, *args)
    leaves = jax.tree.leaves((state, args))
    closed = jax.make_jaxpr(resolve(closed))(*leaves)
    if contains(closed.jaxpr, jax.lax.scan_p):
        closed = jax.make_jaxpr(with_wide_products(closed))(*leaves)
    flat = with_row_updates(closed)(*leaves)
    result: tuple[State, Any] = jax.tree.unflatten(jax.tree.structure(shapes), flat)
    return result


def shape_of(value: Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(jnp.shape(value), jnp.result_type(value))


def _evaluate_constants(closed: Any, paths: list[str]) -> list[Array]:
    """The initial values that the function computed rather than gave: they must not depend on its input."""
    if not paths:
        return []
    jaxpr = closed.jaxpr
    eqns, free = needed_equations(jaxpr.eqns, jaxpr.outvars)
    if free.intersection(jaxpr.invars):
        raise TraceError(
            f"The initial value of one of the variables {', '.join(paths)} depends on the input. Give an "
            "initializer, or a value that is the same for every batch."
        )
    env = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    run_equations(eqns, env)
    return [v.val if isinstance(v, jex.Literal) else env[v] for v in jaxpr.outvars]
