"""Trace a function of variables that live outside of it into a pure step."""

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core as jex

from muster import cpu
from muster._errors import VariableMismatchError
from muster._frontend import frontend
from muster._keras import keras
from muster.program._replicas import Gathers, Replicas
from muster.program.gradients._resolve import gradient_p
from muster.program.passes._jaxprs import AtomValues, body_contains, contains, needed_equations, type_of
from muster.program.trace._function_scope import FunctionScope, computed_inside, unknown_p
from muster.program.trace._program import State, compute_traced, no_collections, shape_of
from muster.program.variables.keras_internals import set_values


@dataclass(frozen=True, kw_only=True)
class Recording:
    """The trace of a function, with placeholders for the values of its variables.

    Args:
        closed: Takes the flat arguments; returns new values of variables, then the flat outputs.
        paths: The path of each variable whose new value it returns.
        reads: The path of the variable whose value each placeholder stands for, by what it computes.
    """

    closed: jex.ClosedJaxpr
    paths: Sequence[str]
    reads: dict[Any, str]

    def fits(self, leaves: Sequence[Any]) -> bool:
        """Return whether flat arguments have the shapes and dtypes of those of the recording run."""
        avals = [jax.typeof(leaf) for leaf in leaves]
        known = [type_of(v) for v in self.closed.jaxpr.invars]
        return [(each.shape, each.dtype) for each in avals] == [(each.shape, each.dtype) for each in known]

    def run(
        self, state: dict[str, jax.Array], leaves: Sequence[Any]
    ) -> tuple[dict[str, jax.Array], list[Any]]:
        """Compute the function.

        Args:
            state: Path -> value of each of its variables.
            leaves: Its flat arguments.

        Returns:
            The new state, and the flat outputs.
        """
        values = AtomValues.of(self.closed, leaves)
        values |= {made: state[path] for made, path in self.reads.items()}
        values.compute([eqn for eqn in self.closed.jaxpr.eqns if eqn.primitive is not unknown_p])
        results = values.read(self.closed.jaxpr.outvars)
        count = len(self.paths)
        return {**state, **dict(zip(self.paths, results[:count], strict=True))}, results[count:]


def recording_of(closed: jex.ClosedJaxpr, paths: Sequence[str], scope: FunctionScope) -> Recording | None:
    """Return what was recorded, if running the code once more would trace the same; None if not.

    It would not where parts run on replicas, where gradients are asked for, whose sources are values of
    variables, and where the body of a loop or branch reads variables.
    """
    if scope.strategy is not None or scope.has_labels or scope.mode.has_stand_ins or scope.created_here:
        return None
    known = {id(variable): spec for spec, variable in scope.bindings.table.pairs}
    if any(spec.per_replica for spec in known.values()) or contains(closed.jaxpr, gradient_p):
        return None
    reads = {}
    for eqn in closed.jaxpr.eqns:
        if eqn.primitive is unknown_p:
            if eqn.params["of"] not in known:
                return None
            reads[eqn.outvars[0]] = known[eqn.params["of"]].path
        elif body_contains(eqn, unknown_p):
            return None
    return Recording(closed=closed, paths=paths, reads=reads)


def draws_to_come() -> tuple[Any, Any]:
    """Return where the generators are that ``random`` and ``numpy.random`` draw from."""
    return random.getstate(), np.random.get_state()


@contextlib.contextmanager
def drawing_again(from_here: tuple[Any, Any]) -> Iterator[None]:
    """Draw what was drawn from a place on, in a ``with`` block; after it, go on as if there had been none."""
    now = draws_to_come()
    _go_to(from_here)
    try:
        yield
    finally:
        _go_to(now)


def _go_to(place: tuple[Any, Any]) -> None:
    of_python, of_numpy = place
    random.setstate(of_python)
    np.random.set_state(of_numpy)


Static = TypeVar("Static")
# How often code is mended until it can be traced.
_MOST_MENDED = 20


def reduced_path(path: str) -> str:
    """Return the path under which a step returns a per-replica variable, reduced over the replicas."""
    return f"{path} of all replicas"


def _is_mended(error: Exception) -> bool:
    """Let the front end mend what an error comes from; return whether another trace may succeed."""
    mend = frontend().mend
    return mend is not None and mend(error)


class FunctionProgram(Generic[Static]):
    """A function as ``step: (state, *args) -> (state, outputs)``, pure in all of them.

    The constructor runs the function on abstract values, to learn which variables it uses, wherever they
    were created. If that run creates some, a second one follows: code that finds its variables may do
    something else than code that creates them. A step runs the function again, which draws the same random
    numbers of Python then.

    Args:
        function: Called with ``args``; returns its outputs, in a structure of arrays, and anything else that
            the caller wants back from the recording run.
        args: Arrays or ``jax.ShapeDtypeStruct`` s, in nested structures.
        given: The arrays in ``args`` of the first call, in order, if they are known: the function may compute
            initial values of variables from them.
        once: Whether a step need not run the function again, if what the last of these runs has traced is the
            program already: its effects in Python come once, then, and nobody sees whether they matter.
        mends: Whether a front end may mend code that cannot be traced. Else the caller runs it uncompiled.

    Attributes:
        variables: The description of each variable that the function uses.
        used: The description of each variable that the function uses, and the variable. In the state, a
            per-replica variable has this replica's value. If a step assigns to it, the new state also has its
            value reduced over the replicas, under `reduced_path`.
        strategy: The strategy whose ``run`` or ``reduce`` it calls, if any.
        created: The variables that the function created.
        has_labels: Whether it computes losses that are NaN for labels out of range.
        assigned: Path -> how often the function assigns to the variable, if it does.
        static: The second value that the function returned.
        outputs: The shapes of the outputs, as ``jax.ShapeDtypeStruct`` s, per replica.
    """

    def __init__(
        self,
        function: Callable[..., tuple[Any, Static]],
        *args: Any,
        given: Sequence[Any] = (),
        once: bool = False,
        mends: bool = True,
    ) -> None:
        cpu.prepare()
        self._once = once
        self._most_mended = _MOST_MENDED if mends else 0
        self._function = function
        gathers = Gathers()
        self._recording: Recording | None = None
        try:
            first = self._first_recorded(args, gathers, given)
        except Exception:
            if not gathers.made:
                raise
            # What it gathers from replicas with fewer rows may be as long as this replica's.
            gathers = Gathers(equal=True)
            first = self._recorded(args, may_create=True, gathers=gathers, given=given)
        scope = first
        self.created = [variable for variable, _ in first.created_here]
        if self.created:
            scope = self._recorded(args, may_create=False, gathers=gathers)
        self.used = scope.bindings.table.pairs
        self.variables = scope.bindings.table.specs
        self.assigned = scope.assignments.history.counts(self.used)
        self.strategy = scope.strategy or first.strategy
        self.has_labels = scope.has_labels

    def _first_recorded(self, args: Sequence[Any], gathers: Gathers, given: Sequence[Any]) -> FunctionScope:
        """Run the function for the first time; again as long as what fails is mended."""
        for _ in range(self._most_mended):
            try:
                return self._recorded(args, may_create=True, gathers=gathers, given=given)
            except Exception as exc:
                if not _is_mended(exc):
                    raise
        return self._recorded(args, may_create=True, gathers=gathers, given=given)

    def _recorded(
        self, args: Sequence[Any], *, may_create: bool, gathers: Gathers, given: Sequence[Any] = ()
    ) -> FunctionScope:
        """Run the function on abstract values, and initialize the variables it creates, even if it fails."""
        scope = FunctionScope(may_create=may_create, gathers=gathers)
        self._draws = draws_to_come()

        computed: list[Any] = []  # the variables whose values are known once the program has run
        paths: list[str] = []  # those of the variables that it assigns to

        def record(*args: Any) -> list[Any]:
            returned, self.static = scope.run(self._function, *args)
            returned = _read(scope, returned)
            self.outputs = jax.tree.map(shape_of, returned)
            pairs = [pair for pair in scope.created_here if isinstance(pair[1], jax.core.Tracer)]
            if pairs and scope.strategy is None:  # the next ones draw other numbers
                pairs += scope.drawn()
            computed.extend(variable for variable, _ in pairs)
            values = scope.bindings.values
            changed = {spec.path: values[id(v)] for spec, v in scope.bindings.table.pairs if id(v) in values}
            paths.extend(changed)
            initial = [value for _, value in pairs if value is not None]
            return [*initial, *changed.values(), *jax.tree.leaves(returned)]

        try:
            with no_collections():
                closed = jax.make_jaxpr(record)(*args)
        finally:
            for variable, value in scope.created_here:
                if value is not None and not isinstance(value, jax.core.Tracer):
                    set_values([variable], [value])
        if computed:
            used = [variable for _, variable in scope.bindings.table.pairs]
            set_values(computed, _computed_values(closed, computed, used, given))
        self._recording = recording_of(closed, paths, scope) if self._once else None
        return scope

    def step(self, state: State, *args: Any, replicas: Replicas | None = None) -> tuple[State, Any]:
        """Run the function on a state: what a strategy compiles.

        Args:
            state: Path -> value of every variable.
            args: Arguments in the structure that the constructor was given; this replica's.
            replicas: The replicas that run this step in parallel; None if there is only one.

        Returns:
            The new state, and the outputs.

        Raises:
            VariableMismatchError: The function uses other variables than when it was recorded, assigns to
                others or less often, or uses another strategy.
        """

        def replay(state: State, *args: Any) -> tuple[State, Any]:
            recording, leaves = self._recording, jax.tree.leaves(args)
            if recording is not None and replicas is None and recording.fits(leaves):
                after, flat = recording.run(state, leaves)
                return after, jax.tree.unflatten(jax.tree.structure(self.outputs), flat)
            scope = FunctionScope(self.used, state, peers=replicas)
            with drawing_again(self._draws):
                outputs, _ = scope.run(self._function, *args)
            self._check_same(scope)
            reduced = {
                reduced_path(spec.path): scope.get_current_value(variable)
                for spec, variable in self.used
                if spec.per_replica and spec.path in self.assigned
            }
            return {**scope.bindings.state(), **reduced}, _read(scope, outputs)

        return compute_traced(replay, state, *args)

    def run_eagerly(self, *args: Any) -> None:
        """Run the function on numbers, with variables of zeros, for the errors that it raises then."""
        zeros = {spec.path: jnp.zeros(spec.shape, spec.dtype) for spec in self.variables}
        FunctionScope(self.used, zeros).run(self._function, *args)

    def _check_same(self, scope: FunctionScope) -> None:
        """Raise an error if the function did something else than when it was recorded."""
        now = scope.assignments.history.counts(self.used)
        if others := sorted(now.keys() - self.assigned.keys()):
            raise VariableMismatchError(
                f"The function assigns to {', '.join(others)} this time, and did not when it was traced "
                "first. It must assign to the same variables at every call with arguments of one kind."
            )
        if lost := sorted(path for path, count in self.assigned.items() if now.get(path, 0) < count):
            raise VariableMismatchError(
                f"The function does not assign to {', '.join(lost)} as often this time as when it was "
                "traced first. What it does only once would be lost: do that outside of it."
            )
        if scope.strategy not in (None, self.strategy):
            raise VariableMismatchError(
                f"The function uses {scope.strategy} this time, and {self.strategy} when it was traced "
                "first. It must use the same strategy at every call with arguments of one kind."
            )


def _read(scope: FunctionScope, returned: Any) -> Any:
    """Return what a function returned with the values of variables in their place."""
    return jax.tree.map(lambda leaf: scope.read(leaf) if isinstance(leaf, keras.Variable) else leaf, returned)


def _computed_values(
    closed: jex.ClosedJaxpr, created: Sequence[Any], variables: Sequence[Any], given: Sequence[Any]
) -> list[jax.Array]:
    """Compute the initial values that a function computes for the variables that it creates.

    Args:
        closed: The function's program, which returns them first.
        created: Their variables.
        variables: All variables that it uses.
        given: Its arguments, if they are known.

    Raises:
        TraceError: They depend on arguments that are not.
    """
    results = closed.jaxpr.outvars[: len(created)]
    needed, start = needed_equations(closed.jaxpr.eqns, results)
    values = AtomValues(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    if given:
        arguments = [
            jnp.asarray(value, var.aval.dtype) for var, value in zip(closed.jaxpr.invars, given, strict=True)
        ]
        values.update(zip(closed.jaxpr.invars, arguments, strict=True))
    known = {id(variable): variable for variable in variables}
    for eqn in needed:
        if eqn.primitive is unknown_p and eqn.params["of"] in known:
            values[eqn.outvars[0]] = known[eqn.params["of"]].value
    needed = [eqn for eqn in needed if eqn.outvars[0] not in values]
    if start - values.keys() or any(eqn.primitive is unknown_p for eqn in needed):
        raise computed_inside(created[0])
    with jax.core.eval_context():
        values.compute(needed)
    return [jnp.array(value) for value in values.read(results)]
