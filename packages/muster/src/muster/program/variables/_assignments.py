"""Record what a step assigns to variables, and reduce it over the replicas."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from muster._errors import TraceError
from muster.program._replicas import Replicas
from muster.program.variables._origins import VariableKind
from muster.program.variables._variable_table import VariableSpec


class Assignments:
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
