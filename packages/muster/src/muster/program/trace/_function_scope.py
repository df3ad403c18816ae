"""Bind the variables that a function uses, wherever they were created."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core as jex

from muster._errors import TraceError, VariableMismatchError
from muster.program._replicas import Gathers, Replicas, Shares
from muster.program.variables._initial_values import initial_value
from muster.program.variables._origins import (
    VariableKind,
    is_adding,
    is_in_result,
    is_per_replica,
    keep_copies,
    kind_of_new,
    origin_of,
    refuse_to_add,
)
from muster.program.variables._remote_variables import create_elsewhere, like_value_of, storage_of
from muster.program.variables._variable_scope import VariableScope
from muster.program.variables._variable_table import VariableSpec

unknown_p = jex.Primitive("muster_unknown")
unknown_p.def_abstract_eval(lambda *, shape, dtype, of: jax.core.ShapedArray(shape, dtype))


def placeholder(shape: tuple[int, ...], dtype: jax.typing.DTypeLike, of: object = None) -> jax.Array:
    """Make a placeholder for an array of unknown values, for a run that only records what code does.

    Args:
        shape: Its shape.
        dtype: Its dtype.
        of: The variable whose value it stands for; None for none.
    """
    canonical = jax.dtypes.canonicalize_dtype(dtype, allow_extended_dtype=True)
    return unknown_p.bind(shape=shape, dtype=canonical, of=id(of))  # type: ignore[no-any-return]


class FunctionScope(VariableScope):
    """Gives the variables that code uses their values, and collects assignments.

    Args:
        variables: The variables that the code used when it was recorded; empty to record.
        state: Path -> value of each of them; None to record.
        peers: The replicas that run what the code passes to ``strategy.run`` in parallel; None if there is
            only one, or to record.
        may_create: Whether the code may create variables.
        gathers: The lengths of what the code gathers while it is recorded; None if nobody asks for them.

    Attributes:
        strategy: The strategy whose replicas run parts of the code, if any.
        created_here: The variables that the code creates, with their initial values; None for one that is
            kept elsewhere, which has its value there already.
        may_create: Whether the code may create variables.
    """

    def __init__(
        self,
        variables: Sequence[tuple[VariableSpec, Any]] = (),
        state: Mapping[str, jax.Array] | None = None,
        *,
        peers: Replicas | None = None,
        may_create: bool = False,
        gathers: Gathers | None = None,
    ) -> None:
        super().__init__()
        self.strategy: Any = None
        self.created_here: list[tuple[Any, jax.Array | None]] = []
        self._peers = peers
        self.may_create = may_create
        self._gathers = gathers
        self.mode.records = state is None
        for spec, variable in variables:
            self.bindings.table.put(spec, variable)
            self.bindings.values[id(variable)] = (state or {})[spec.path]

    def replicas_of(
        self, strategy: Any, count: int, *, active: int, sizes: tuple[int, ...] | None = None
    ) -> Replicas | None:
        """Return the replicas that run parts of the code; None for a single one that reduces nothing.

        Args:
            strategy: The strategy that they belong to.
            count: The number of its replicas.
            active: How many of them count.
            sizes: The number of rows of each, if they differ.

        Raises:
            RuntimeError: Another part of the code runs on the replicas of another strategy.
        """
        self._use(strategy)
        return None if count == 1 and self._peers is None else self._replicas(count, active, sizes)

    def _use(self, strategy: Any) -> None:
        if self.strategy not in (None, strategy):
            raise RuntimeError(
                f"Mixing different tf.distribute.Strategy objects: {strategy} is used in a function that "
                f"uses {self.strategy} as well. Build one strategy, and use it everywhere."
            )
        self.strategy = strategy

    def _replicas(self, count: int, active: int, sizes: tuple[int, ...] | None = None) -> Replicas:
        # While recording only shapes matter, so sums may be wrong.
        peers = self._peers or Replicas(
            index=jnp.uint32(0),
            all_reduce=lambda a: a,
            count=count,
            active=count,
            gathers=self._gathers,
            recorded=True,
        )
        shares = None if sizes is None else Shares(sizes, sizes[peers.program_of])
        return dataclasses.replace(peers, active=active, shares=shares)

    @contextlib.contextmanager
    def replica_view(self, replicas: Replicas) -> Iterator[None]:
        """Run code as one of the replicas; at the end, reduce what they assigned."""
        with self.on(replicas):
            self._diversify_seeds()
            yield
            self.assignments.synchronize()

    @contextlib.contextmanager
    def cross_replica_view(self) -> Iterator[None]:
        """Reduce what the replicas assigned, and run code as if there were only one replica."""
        self.assignments.synchronize()
        with self.on(None):
            yield
        self._diversify_seeds()

    def _diversify_seeds(self) -> None:
        for _, variable in self.bindings.table.pairs:
            self.assignments.fold_replica_into_seed(variable, self.get_current_value)

    def get_current_value(self, variable: Any) -> jax.Array:
        self.bindings.note_read(variable)
        value = self._local_value(variable)
        spec = self.bindings.table.spec(variable)
        if spec.per_replica and self.replicas is None:
            return self._replicas_of_owner(variable).reduce(spec.aggregation, value)
        if spec.kind is VariableKind.METRIC and is_in_result():
            return self.assignments.with_others(variable, value)
        return value

    def per_replica_value(self, variable: Any) -> jax.Array | None:
        """Return this replica's value of a per-replica variable; None for any other variable."""
        value = self._local_value(variable)
        return value if self.bindings.table.spec(variable).per_replica else None

    def _replicas_of_owner(self, variable: Any) -> Replicas:
        """Return the replicas that keep their own values of a per-replica variable."""
        owner: Any = origin_of(variable).owner
        count = owner.num_replicas_in_sync
        self._use(owner)
        return self._replicas(count, count)

    def _local_value(self, variable: Any) -> jax.Array:
        """Return the value of a variable; this replica's, if it is per-replica."""
        known: jax.Array | None = self.bindings.values.get(id(variable))
        if known is not None:
            return known
        if not self.mode.records:
            raise VariableMismatchError(
                f"The function uses the variable {variable.path!r} this time, and did not when it was traced "
                "first. It must use the same variables at every call with arguments of one kind."
            )
        value = like_value_of(variable)
        if variable not in self.bindings.table:
            self.add_found(variable, value)
            self.assignments.fold_replica_into_seed(variable, self.get_current_value)
        # Not cached: this may be the body of a loop, whose tracers must not leave it.
        return placeholder(value.shape, value.dtype, variable)

    def add_found(self, variable: Any, value: Any) -> None:
        """Add a variable that exists already, with its value or what is like it, to the table."""
        kind, copied = origin_of(variable).kind, is_per_replica(variable)
        self.bindings.table.add(variable, kind, value.dtype, per_replica=copied)

    def add_update(self, update: tuple[Any, jax.Array]) -> None:
        variable, value = update
        assignments, table = self.assignments, self.bindings.table
        before = self._local_value(variable)
        self.bindings.values.setdefault(id(variable), before)
        spec = table.spec(variable)
        if self.replicas is not None and variable.trainable:
            self._require_owner(variable)
        if self._diverges(spec) and keep_copies(variable):
            spec = table.keep_copies(variable)
        if spec.per_replica:
            value = self._assigned_per_replica(spec, variable, before, value)
        elif self.replicas is None or assignments.is_in_sync or spec.kind is not VariableKind.OTHER:
            return assignments.assign(variable, value)
        elif (
            assignments.taken is not None
        ):  # all replicas are to assign, and not only those that take this way
            assignments.taken.unreduced[id(variable)] = is_adding()
        else:
            # Outside of a strategy it is one variable, to which each replica adds.
            adds = is_adding() and (spec.aggregation == "sum" or origin_of(variable).owner is None)
            value = _reduce_assigned(self.replicas, spec, before, value, adds)
        with assignments.in_sync():
            return assignments.assign(variable, value)

    def _diverges(self, spec: VariableSpec) -> bool:
        """Return whether an assignment now gives each replica a value of its own, as no aggregation is known.

        The statistics of layers are numbers, and have a mean.
        """
        is_same = self.replicas is None or self.assignments.is_in_sync
        if is_same or spec.aggregation != "none" or spec.per_replica:
            return False
        is_counter = spec.kind is VariableKind.WEIGHT and not jnp.issubdtype(spec.dtype, jnp.inexact)
        return spec.kind is VariableKind.OTHER or is_counter

    def check_constant(self, variable: Any) -> None:
        """Allow any constant: a function runs when it is called, and not as every step."""

    def created(self, variable: Any, initializer: Any) -> None:
        if not self.may_create:
            raise VariableMismatchError(
                f"The function creates the variable {variable.path!r} at every call. Create variables, "
                "layers and models outside of it, or only at its first call."
            )
        spec = self.bindings.table.add(variable, kind_of_new(), per_replica=is_per_replica(variable))
        if storage_of(variable) is not None and not isinstance(initializer, jax.core.Tracer):
            create_elsewhere(variable, initializer)
            return self.created_here.append((variable, None))
        value = initial_value(initializer, spec.shape, spec.dtype)
        if isinstance(value, jax.core.Tracer) and (
            self.replicas is not None or storage_of(variable) is not None
        ):
            raise computed_inside(variable)
        self.bindings.values[id(variable)] = value
        self.created_here.append((variable, value))

    def values_of_new(self) -> dict[int, jax.Array]:
        values = {id(variable): value for variable, value in self.created_here if value is not None}
        return {key: value for key, value in values.items() if not isinstance(value, jax.core.Tracer)}

    def drawn(self) -> list[tuple[Any, jax.Array | None]]:
        """Return the states of seed generators from which the code has drawn, and their new values."""
        states = [variable for spec, variable in self.bindings.table.pairs if spec.kind is VariableKind.SEED]
        pairs = [(each, self.bindings.values.get(id(each))) for each in states]
        return [(each, value) for each, value in pairs if isinstance(value, jax.core.Tracer)]

    def _assigned_per_replica(
        self, spec: VariableSpec, variable: Any, before: jax.Array, value: jax.Array
    ) -> jax.Array:
        """Return this replica's new value of a per-replica variable to which `value` is assigned."""
        if (replicas := self.replicas) is not None:
            if spec.aggregation == "sum" and replicas.active < replicas.count:
                return jnp.where(replicas.index < replicas.active, value, before)
            return value
        refuse_to_add(variable)
        replicas = self._replicas_of_owner(variable)
        if spec.aggregation == "sum":
            return replicas.partial(value)
        return before + (value - replicas.reduce(spec.aggregation, before)) if is_adding() else value

    def _require_owner(self, variable: Any) -> None:
        owner = origin_of(variable).owner
        if owner is not self.strategy:
            where = "outside of any strategy's scope" if owner is None else f"in the scope of {owner}"
            raise ValueError(
                f"{self.strategy} cannot train the variable {variable.path!r}, which was created {where}. "
                "Build the model and the optimizer inside of `with strategy.scope():`."
            )


def computed_inside(variable: Any) -> TraceError:
    """Make the error for a variable whose initial value is known only inside of a function."""
    return TraceError(
        f"The initial value of the variable {variable.path!r} is computed inside of the function that "
        "creates it, from its arguments or for a replica. Give an initializer, or create it outside."
    )


def _reduce_assigned(
    replicas: Replicas, spec: VariableSpec, before: jax.Array, value: jax.Array, adds: bool
) -> jax.Array:
    """Return the new value of a variable to which each replica assigns its own `value`."""
    match spec.aggregation:
        case "sum" | "none" if adds:
            return before + replicas.sum([value - before])[0]
        case "mean" | "sum" | "only_first_replica":
            return replicas.reduce(spec.aggregation, value)
    raise ValueError(
        f"Each replica assigns a value to the variable {spec}, of which there is a single copy, and it does "
        "not say which counts. You must specify an aggregation method: create it with aggregation='mean', "
        "'sum' or 'only_first_replica', or in the scope of the strategy, so that each replica has a copy."
    )
