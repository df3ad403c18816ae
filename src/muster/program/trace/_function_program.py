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
from muster.program.trace._program import finished, shape_of
from muster.program.variables._keras_internals import set_values, value_of
from muster.program.variables._replicas import Replicas
from muster.program.variables._variables import VariableScope, VariableSpec, entered
from muster.program.variables._watching import (
    VariableKind,
    is_adding,
    keeps_own_values,
    origin_of,
    refuse_to_add,
)

Array = Any
State = dict[str, Array]
Static = TypeVar("Static")

_unknown_p = jex.Primitive("muster_unknown")
_unknown_p.def_abstract_eval(lambda *, shape, dtype: jax.core.ShapedArray(shape, dtype))


def unknown(shape: tuple[int, ...], dtype: Any) -> Array:
    """An array in the place of one that is not known yet, for a run that learns what code asks for."""
    return _unknown_p.bind(shape=shape, dtype=jax.dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True))


class FunctionScope(VariableScope):
    """Binds the variables that code uses, wherever they were created, and collects their updates.

    Args:
        variables: those that the code used when it was recorded; None to record.
        state: path -> value of each of them.
        given: the copies of this run that run beside it, for the parts of the code that are in the replica
            view; None where there are none, or to record.
        may_create: whether the code may create variables.

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
        may_create: bool = False,
    ) -> None:
        super().__init__(state)
        self.given = given
        self._may_create = may_create
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
        self._use(strategy)
        return None if count == 1 else self._some_of(count, active)

    def _use(self, strategy: Any) -> None:
        if self.strategy not in (None, strategy):
            raise RuntimeError(
                f"Mixing different tf.distribute.Strategy objects: {strategy} is used in a function that "
                f"uses {self.strategy} as well."
            )
        self.strategy = strategy

    def _some_of(self, count: int, active: int) -> Replicas:
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
        value = self._held(variable)
        spec = self.specs[self._places[id(variable)]]
        if spec.own and self.replicas is None:
            return self._all_replicas(variable).combined(spec.aggregation, value)
        return value

    def own_value(self, variable: Any) -> Array | None:
        """What this replica has of a variable that each has its own of; None for any other."""
        value = self._held(variable)
        return value if self.specs[self._places[id(variable)]].own else None

    def spec_of(self, variable: Any, kind: VariableKind, dtype: Any = None) -> VariableSpec:
        spec = super().spec_of(variable, kind, dtype)
        return dataclasses.replace(spec, own=keeps_own_values(variable))

    def _all_replicas(self, variable: Any) -> Replicas:
        """The replicas each of which has a value of its own of a variable."""
        owner: Any = origin_of(variable).owner
        count = owner.num_replicas_in_sync
        self._use(owner)
        return self._some_of(count, count)

    def _held(self, variable: Any) -> Array:
        """The value of a variable, or what this replica has of it."""
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
        return unknown(value.shape, value.dtype)

    def add_update(self, update: tuple[Any, Array]) -> None:
        variable, value = update
        before = self._held(variable)
        self.state_mapping.setdefault(id(variable), before)
        spec = self.specs[self._places[id(variable)]]
        if spec.own:
            with self.in_sync():
                return self.assigned(variable, self._own(spec, variable, before, value))
        if self.replicas is not None and variable.trainable:
            self._require_owner(variable)
        if self.replicas is not None and not self._in_sync:
            if spec.kind is VariableKind.OTHER:
                value = self._agreed(self.replicas, spec, before, value)
                with self.in_sync():
                    return self.assigned(variable, value)
        return self.assigned(variable, value)

    def refuse_constant(self, variable: Any) -> None:
        """Anything may be assigned here: a function runs when it is called, and not as every step."""

    def created(self, variable: Any, initializer: Any) -> None:
        if not self._may_create:
            raise TraceError(
                f"The function creates the variable {variable.path!r} at every call. Create variables, "
                "layers and models outside of it, or only at its first call."
            )
        super().created(variable, initializer)
        self.created_here.append((variable, self.initial[-1]))

    def _own(self, spec: VariableSpec, variable: Any, before: Array, value: Array) -> Array:
        """What a variable becomes that each replica has its own of, for this replica."""
        if (one := self.replicas) is not None:
            if spec.aggregation == "sum" and one.active < one.count:
                return jnp.where(one.index < one.active, value, before)
            return value
        refuse_to_add(variable)
        replicas = self._all_replicas(variable)
        if spec.aggregation == "sum":
            return replicas.share(value)
        return before + (value - replicas.combined(spec.aggregation, before)) if is_adding() else value

    def _agreed(self, replicas: Replicas, spec: VariableSpec, before: Array, value: Array) -> Array:
        """What a variable becomes to which each replica assigns a value of its own."""
        match spec.aggregation:
            case "sum" if is_adding():
                return before + replicas.sum([value - before])[0]
            case "mean" | "sum" | "only_first_replica":
                return replicas.combined(spec.aggregation, value)
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


def combined_path(path: str) -> str:
    """Under which name a step gives what the replicas' own values of a variable come to."""
    return f"{path} of all replicas"


class FunctionProgram(Generic[Static]):
    """A function of arrays as ``step: (state, *args) -> (state, outputs)``, pure in all of them.

    The constructor runs it on abstract values, to learn which variables it uses. They may have been created
    anywhere. Those that it creates itself exist from then on; so it is run once more, without creating any,
    since code that finds its variables may do something else.

    Args:
        function: called with ``args``; returns its outputs, in a structure of arrays, and whatever else the
            caller wants back from the recording run.
        args: arrays or ``jax.ShapeDtypeStruct`` s, in nested structures.

    Attributes:
        variables: what the function uses, with the variables themselves.
        strategy: the one whose ``run`` or ``reduce`` it calls, if any.
        used: these, with what is known of each. The state has those values of their own that each replica
            has of some; of those to which the function assigns, the step's state has what they come to, too,
            by `combined_path`.
        created: the variables that the function created.
        assigned: path -> how often the function assigns to the variable, of those that it assigns to.
        static: the second thing that the function returned.
        outputs: the shapes of the outputs, as ``jax.ShapeDtypeStruct`` s, per replica.
    """

    def __init__(self, function: Callable[..., tuple[Any, Static]], *args: Any) -> None:
        cpu.prepare()
        self._function = function
        first = scope = self._recorded(args, may_create=True)
        self.created = [variable for variable, _ in first.created_here]
        if self.created:
            scope = self._recorded(args, may_create=False)
        self.used = scope.pairs
        self.variables = tuple(scope.specs)
        self.assigned = scope.updates()
        self.strategy = scope.strategy or first.strategy

    def _recorded(self, args: Sequence[Any], *, may_create: bool) -> FunctionScope:
        """Run the function on abstract values, and give what it creates initial values, even if it fails."""
        scope = FunctionScope(may_create=may_create)

        def record(*args: Any) -> None:
            returned, self.static = scope.run(self._function, *args)
            self.outputs = jax.tree.map(shape_of, returned)

        try:
            jax.make_jaxpr(record)(*args)
        finally:
            computed = [pair for pair in scope.created_here if isinstance(pair[1], jax.core.Tracer)]
            known = [pair for pair in scope.created_here if not isinstance(pair[1], jax.core.Tracer)]
            set_values([variable for variable, _ in known], [value for _, value in known])
        if computed:
            raise TraceError(
                f"The initial value of the variable {computed[0][0].path!r} is computed inside of the "
                "function that creates it. Give an initializer, or create it outside."
            )
        return scope

    def step(self, state: State, *args: Any, replicas: Replicas | None = None) -> tuple[State, Any]:
        """Run the function on given state: what a strategy compiles.

        Args:
            state: path -> value of every variable.
            args: in the structure that the constructor was given.
            replicas: the copies of the step that run beside this one, if any: ``args`` are this one's.

        Returns:
            The new state, and the outputs.

        Raises:
            VariableMismatchError: if the function uses other variables than when it was recorded, assigns to
                others or less often, or uses another strategy.
        """

        def replay(state: State, *args: Any) -> tuple[State, Any]:
            scope = FunctionScope(self.used, state, given=replicas)
            outputs, _ = scope.run(self._function, *args)
            now = scope.updates()
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
            together = {
                combined_path(spec.path): scope.get_current_value(variable)
                for spec, variable in self.used
                if spec.own and spec.path in self.assigned
            }
            return {**scope.state(), **together}, outputs

        return finished(replay, state, *args)
