"""A program over variables that live outside of it: a function as a pure step."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
from jax.extend import core as jex

from muster import cpu
from muster._errors import TraceError, VariableMismatchError
from muster.program._keras_internals import set_value, value_of
from muster.program._program import finished, shape_of
from muster.program._replicas import Replicas
from muster.program._variables import VariableScope, VariableSpec, entered
from muster.program._watching import VariableKind, is_adding, origin_of

Array = Any
State = dict[str, Array]
Static = TypeVar("Static")

_variable_p = jex.Primitive("muster_variable")
_variable_p.def_abstract_eval(lambda *, shape, dtype: jax.core.ShapedArray(shape, dtype))


class FunctionScope(VariableScope):
    """Binds the variables that code uses, wherever they were created, and collects their updates.

    Args:
        variables: those that the code used when it was recorded; None to record.
        state: path -> value of each of them.
        given: the copies of this run that run beside it, for the parts of the code that are in the replica
            view; None where there are none, or to record.

    Attributes:
        strategy: whose replicas parts of the code run on, if on any.
        created_here: the variables that the code creates, with their initial values.
    """

    def __init__(
        self,
        variables: Sequence[tuple[VariableSpec, Any]] = (),
        state: Mapping[str, Array] | None = None,
        *,
        given: Replicas | None = None,
    ) -> None:
        super().__init__(state)
        self.given = given
        self.strategy: Any = None
        self.created_here: list[tuple[Any, Array]] = []
        for spec, variable in variables:
            self.register(spec, variable)
            self.state_mapping[id(variable)] = state[spec.path]  # type: ignore[index]

    def run(self, function: Callable[..., Any], *args: Any) -> Any:
        with entered(self):
            return function(*args)

    def replicas_of(self, strategy: Any, count: int, *, active: int) -> Replicas | None:
        """The replicas on which parts of the code run; None if there is but one.

        Args:
            strategy: whose they are.
            count: how many it has.
            active: how many of them count.

        Raises:
            RuntimeError: another part of the code runs on those of another strategy.
        """
        if self.strategy not in (None, strategy):
            raise RuntimeError(
                f"Mixing different tf.distribute.Strategy objects: {strategy} is used in a function that "
                f"uses {self.strategy} as well."
            )
        self.strategy = strategy
        if count == 1:
            return None
        # To learn of which shape everything is, what is added does not matter.
        given = self.given or Replicas(index=jnp.uint32(0), add=lambda a: a, count=count, active=count)
        return dataclasses.replace(given, active=active)

    @contextlib.contextmanager
    def replica_view(self, replicas: Replicas) -> Iterator[None]:
        """Run the code meanwhile as one of several replicas, whose assignments meet at the end."""
        self.replicas = replicas
        try:
            for spec, variable in self.pairs:
                self._make_own(spec, variable)
            yield
            self.synchronize()
        finally:
            self.replicas = None

    @contextlib.contextmanager
    def cross_replica_view(self) -> Iterator[None]:
        """Let the replicas' assignments meet, and run the code meanwhile as if there were but one replica."""
        replicas = self.replicas
        self.synchronize()
        self.replicas = None
        try:
            yield
        finally:
            self.replicas = replicas
        for spec, variable in self.pairs:
            self._make_own(spec, variable)

    def get_current_value(self, variable: Any) -> Array:
        known = self.state_mapping.get(id(variable))
        if known is not None:
            return known
        if self._state is not None:
            raise VariableMismatchError(
                f"The function uses the variable {variable.path!r} this time, and did not when it was traced "
                "first. It must use the same variables at every call with arguments of one kind."
            )
        value = value_of(variable)
        if id(variable) not in self._places:
            spec = self.spec_of(variable, origin_of(variable).kind, value.dtype)
            self.register(spec, variable)
            self._make_own(spec, variable)
        # Not to be remembered: this may be inside of a loop, where the value is that loop's own.
        return _variable_p.bind(shape=value.shape, dtype=value.dtype)

    def add_update(self, update: tuple[Any, Array]) -> None:
        variable, value = update
        before = self.get_current_value(variable)
        self.state_mapping.setdefault(id(variable), before)
        if self.replicas is not None and variable.trainable:
            self._require_owner(variable)
        if self.replicas is not None and not self._in_sync:
            spec = self.specs[self._places[id(variable)]]
            if spec.kind is VariableKind.OTHER and variable.synchronization != "on_read":
                value = self._agreed(self.replicas, spec, before, value)
                with self.in_sync():
                    return super().add_update((variable, value))
        return super().add_update((variable, value))

    def refuse_constant(self, variable: Any) -> None:
        """Anything may be assigned here: a function runs when it is called, and not as every step."""

    def created(self, variable: Any, initializer: Any) -> None:
        if self._state is not None:
            raise TraceError(
                f"The function creates the variable {variable.path!r} at every call. Create variables, "
                "layers and models outside of it, or only at its first call."
            )
        super().created(variable, initializer)
        self.created_here.append((variable, self.initial[-1]))

    def _agreed(self, replicas: Replicas, spec: VariableSpec, before: Array, value: Array) -> Array:
        """What a variable becomes to which each replica assigns a value of its own."""
        match spec.aggregation:
            case "mean":
                return replicas.mean([value])[0]
            case "sum" if is_adding():
                return before + replicas.sum([value - before])[0]
            case "sum":
                return replicas.sum([value])[0]
            case "only_first_replica":
                return replicas.first([value])[0]
        raise ValueError(
            "You must specify an aggregation method to update a MirroredVariable in Replica Context. You can "
            f"do so by passing an explicit value for argument `aggregation`: the variable {spec} has none."
        )

    def _make_own(self, spec: VariableSpec, variable: Any) -> None:
        """Give a variable that each replica has its own of this replica's value."""
        if self.replicas is None:
            return
        if spec.kind is VariableKind.SEED:
            own = self.replicas.own_seed(self.get_current_value(variable))
            self.state_mapping[id(variable)] = self._before[id(variable)] = own

    def _require_owner(self, variable: Any) -> None:
        owner = origin_of(variable).owner
        if owner is not self.strategy:
            where = "outside of any strategy's scope" if owner is None else f"in the scope of {owner}"
            raise ValueError(
                f"{self.strategy} cannot train the variable {variable.path!r}, which was created {where}. "
                "Build the model and the optimizer inside of `with strategy.scope():`."
            )


class FunctionProgram(Generic[Static]):
    """A function of arrays as ``step: (state, *args) -> (state, outputs)``, pure in all of them.

    The constructor runs it once, on abstract values, to learn which variables it uses. They may have been
    created anywhere; those that it creates itself exist from then on.

    Args:
        function: called with ``args``; returns its outputs, in a structure of arrays, and whatever else the
            caller wants back from the recording run.
        args: arrays or ``jax.ShapeDtypeStruct`` s, in nested structures.

    Attributes:
        variables: what the function uses, with the variables themselves.
        strategy: the one whose ``run`` or ``reduce`` it calls, if any.
        static: the second thing that the function returned.
        outputs: the shapes of the outputs, as ``jax.ShapeDtypeStruct`` s, per replica.
    """

    def __init__(self, function: Callable[..., tuple[Any, Static]], *args: Any) -> None:
        cpu.prepare()
        self._function = function
        scope = FunctionScope()

        def record(*args: Any) -> None:
            returned, self.static = scope.run(function, *args)
            self.outputs = jax.tree.map(shape_of, returned)

        jax.make_jaxpr(record)(*args)
        self.used = scope.pairs
        self.variables = tuple(scope.specs)
        self.strategy = scope.strategy
        for variable, value in scope.created_here:
            if isinstance(value, jax.core.Tracer):
                raise TraceError(
                    f"The initial value of the variable {variable.path!r} is computed inside of the function "
                    "that creates it. Give an initializer, or create it outside."
                )
            set_value(variable, value)

    def step(self, state: State, *args: Any, replicas: Replicas | None = None) -> tuple[State, Any]:
        """Run the function on given state: what a strategy compiles.

        Args:
            state: path -> value of every variable.
            args: in the structure that the constructor was given.
            replicas: the copies of the step that run beside this one, if any: ``args`` are this one's.

        Returns:
            The new state, and the outputs.

        Raises:
            VariableMismatchError: if the function uses other variables than when it was recorded.
        """

        def replay(state: State, *args: Any) -> tuple[State, Any]:
            scope = FunctionScope(self.used, state, given=replicas)
            outputs, _ = scope.run(self._function, *args)
            return scope.state(), outputs

        return finished(replay, state, *args)

    def state(self) -> State:
        """path -> the variables' values, as they are now."""
        return {spec.path: value_of(variable) for spec, variable in self.used}

    def take(self, state: State) -> None:
        """Give the variables the values that a step has made."""
        for spec, variable in self.used:
            set_value(variable, state[spec.path])
