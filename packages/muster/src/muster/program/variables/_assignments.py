"""Assign to the variables of a step, at once or later, and reduce what replicas assign."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from muster._errors import TraceError
from muster.program._replicas import Replicas
from muster.program.passes._markers import assigned
from muster.program.variables._bindings import Bindings
from muster.program.variables._held_updates import HeldUpdate
from muster.program.variables._origins import VariableKind
from muster.program.variables._variable_table import VariableSpec


class History:
    """Records the value that each variable had before each assignment."""

    def __init__(self) -> None:
        self._earlier: dict[int, list[jax.Array]] = {}
        self._increments: Counter[int] = Counter()

    def note(self, variable: Any, before: jax.Array) -> None:
        """Note an assignment to a variable that had the value `before`."""
        self._earlier.setdefault(id(variable), []).append(before)

    def note_increment(self, variable: Any) -> None:
        """Note that the latest assignment added one."""
        self._increments[id(variable)] += 1

    def earlier(self, variable: Any) -> list[jax.Array]:
        """Return the values that a variable had before its current one."""
        return self._earlier.get(id(variable), [])

    def counts(self, pairs: Iterable[tuple[VariableSpec, Any]]) -> dict[str, int]:
        """Return path -> number of assignments, of the variables that were assigned to."""
        return {spec.path: len(earlier) for spec, v in pairs if (earlier := self.earlier(v))}

    def only_incremented_once(self, pairs: Iterable[tuple[VariableSpec, Any]]) -> set[str]:
        """Return the paths of the variables to which one was added, once, and nothing else assigned."""
        return {spec.path for spec, v in pairs if len(self.earlier(v)) == self._increments[id(v)] == 1}


@dataclass
class Branch:
    """The assignments of a branch that may not be taken, by the ids of variables.

    Attributes:
        assigned: The variable, and its value at the end.
        unreduced: Those to which each replica assigns, which is still to be reduced: whether it has added.
        diverged: Those that replicas have assigned different values to.
    """

    assigned: dict[int, tuple[Any, jax.Array]] = field(default_factory=dict)
    unreduced: dict[int, bool] = field(default_factory=dict)
    diverged: set[int] = field(default_factory=set)


class DivergedValues:
    """Records which variables replicas have assigned different values to, until it reduces them.

    Attributes:
        reduced: This replica's values that were reduced, by the ids of variables.
    """

    def __init__(self) -> None:
        self._before: dict[int, jax.Array] = {}
        self.reduced: dict[int, list[jax.Array]] = {}

    def copy(self) -> "DivergedValues":
        """Return a record of the same, which goes on by itself."""
        made = DivergedValues()
        made._before.update(self._before)
        return made

    def has(self, key: int) -> bool:
        """Return whether the values of the variable of an id may differ now."""
        return key in self._before

    def note(self, variable: Any, before: jax.Array) -> None:
        """Note that a variable's value, so far `before` on all replicas, may differ from now on."""
        self._before.setdefault(id(variable), before)

    def before(self, variable: Any) -> jax.Array | None:
        """Return the value of a variable that may differ now, before it did; None for any other."""
        return self._before.get(id(variable))

    def reduce(
        self,
        replicas: Replicas,
        pairs: Iterable[tuple[VariableSpec, Any]],
        values: dict[int, jax.Array],
        kinds: Collection[VariableKind],
    ) -> None:
        """Make values equal on all replicas again.

        Args:
            replicas: The replicas of the step.
            pairs: The description of each variable, and the variable.
            values: The current value of each variable, by its id; updated.
            kinds: Only variables of these kinds; empty for all.

        Raises:
            TraceError: The values of a variable have no mean of their type.
        """
        by_reduction: dict[str, list[int]] = {_SEED: [], "sum": [], "mean": [], "only_first_replica": []}
        for spec, variable in pairs:
            if id(variable) in self._before and (not kinds or spec.kind in kinds):
                by_reduction[_reduction_of(spec)].append(id(variable))
        seeds, sums, means, firsts = by_reduction.values()
        for key in (*seeds, *sums, *means, *firsts):
            self.reduced.setdefault(key, []).append(values[key])
        values.update({k: replicas.common_seed(values[k]) for k in seeds})
        added = replicas.sum([values[k] - self._before[k] for k in sums])
        averaged = replicas.mean([values[k] for k in means])
        values.update({k: self._before[k] + a for k, a in zip(sums, added, strict=True)})
        values.update(zip(means, averaged, strict=True))
        values.update(zip(firsts, replicas.broadcast_first([values[k] for k in firsts]), strict=True))
        for key in (*seeds, *sums, *means, *firsts):
            del self._before[key]


_SEED = "seed"


def _reduction_of(spec: VariableSpec) -> str:
    match spec:
        case VariableSpec(kind=VariableKind.SEED):
            return _SEED
        case VariableSpec(kind=VariableKind.METRIC) | VariableSpec(aggregation="sum"):
            return "sum"
        case VariableSpec(kind=VariableKind.LOCAL, aggregation="none"):
            return "sum"
        case VariableSpec(aggregation="only_first_replica"):
            return "only_first_replica"
        case VariableSpec(aggregation="mean") if not jnp.issubdtype(spec.dtype, jnp.inexact):
            raise TraceError(
                f"The replicas assign to the variable {spec}, whose values have no mean of their type. Build "
                "it with aggregation='only_first_replica' if all replicas assign the same, or with 'sum'."
            )
        case VariableSpec(aggregation="mean"):
            return "mean"
        case VariableSpec(kind=VariableKind.WEIGHT) if jnp.issubdtype(spec.dtype, jnp.inexact):
            return "mean"  # of layers' statistics
    return "only_first_replica"  # without an aggregation: TensorFlow reads and saves the first one's copy


class Assignments:
    """Collects what code assigns to variables.

    Args:
        bindings: The variables and their values.
        replicas: The replicas that run this code in parallel; None if there is only one.

    Attributes:
        replicas: The replicas that run the code now; None for all at once, or if there is only one.
        history: What was assigned so far.
        diverged: The variables to which replicas have assigned different values.
        is_in_sync: Whether assignments are the same on all replicas now.
        taken: The way through the code that is traced now, if it may not be taken.
        held: The assignments that `holding` holds back.
    """

    def __init__(self, bindings: Bindings, replicas: Replicas | None) -> None:
        self.replicas = replicas
        self.history = History()
        self.diverged = DivergedValues()
        self.is_in_sync = False
        self.taken: Branch | None = None
        self.held: list[HeldUpdate] = []
        self._bindings = bindings
        self._holds = False
        self._reduced: list[tuple[jax.Array, jax.Array]] = []

    def assign(self, variable: Any, value: jax.Array) -> None:
        """Change the value of a variable that has one.

        Derivatives end here, as in TensorFlow: the new value counts as computed from nothing.
        """
        if self._holds:
            self.held.append(HeldUpdate(variable, value, self.assign))
            return
        before = self._bindings.values[id(variable)]
        self.history.note(variable, before)
        if self.replicas is not None and not self.is_in_sync:
            self.diverged.note(variable, before)
        self._bindings.change({id(variable): assigned(value)})

    def increment(self, variable: Any) -> None:
        """Add one to a variable."""
        variable.assign_add(1)
        self.history.note_increment(variable)

    def result(self, variable: Any, value: Any) -> Any:
        """Return the value that a variable has after one was assigned to it; that one if the update waits."""
        return value if self._holds else self._bindings.values.get(id(variable), value)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Hold back the assignments made meanwhile: they wait in ``held`` until the code runs them."""
        before, self._holds = self._holds, True
        try:
            yield
        finally:
            self._holds = before

    @contextmanager
    def in_sync(self) -> Iterator[None]:
        """Take the assignments made meanwhile as the same on all replicas."""
        before, self.is_in_sync = self.is_in_sync, True
        try:
            yield
        finally:
            self.is_in_sync = before

    @contextmanager
    def on_branch(self) -> Iterator[Branch]:
        """Keep what is assigned meanwhile apart: on a way through the code that may not be taken."""
        outer = self.history, self.diverged, self.taken
        self.history, self.diverged = History(), self.diverged.copy()
        self.taken = made = Branch()
        try:
            yield made
        finally:
            self.history, self.diverged, self.taken = outer

    def fold_replica_into_seed(self, variable: Any, read: Callable[[Any], jax.Array]) -> None:
        """Let a variable that is the state of a seed generator differ between replicas."""
        if self.replicas is not None and self._bindings.table.spec(variable).kind is VariableKind.SEED:
            seed = self.replicas.fold_into_seed(read(variable))
            self._bindings.change({id(variable): seed})
            self.diverged.note(variable, seed)

    def synchronize(self, *kinds: VariableKind) -> None:
        """Reduce what the replicas assigned to variables, so that all replicas hold the same values.

        Args:
            kinds: Only variables of these kinds; none for all.

        Raises:
            TraceError: The values of a variable have no mean of their type.
        """
        if self.replicas is not None:
            self.diverged.reduce(self.replicas, self._bindings.table.pairs, self._bindings.values, kinds)
            self._bindings.trace_keys.note_change()

    def with_others(self, variable: Any, value: jax.Array) -> jax.Array:
        """Return the value of a sum together with what the other replicas have added to it."""
        before = self.diverged.before(variable)
        if self.replicas is None or before is None:
            return value
        return before + self.replicas.sum([value - before])[0]

    def note_reduced(self, value: jax.Array, result: jax.Array) -> None:
        """Remember that `value` was reduced over the replicas to `result`."""
        self._reduced.append((value, result))

    def reduced(self, value: jax.Array) -> jax.Array:
        """Return what this very value was reduced to before, or else its mean over the replicas."""
        if self.replicas is None:
            return value
        known = next((result for of, result in self._reduced if of is value), None)
        return self.replicas.mean([value])[0] if known is None else known
