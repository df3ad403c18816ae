"""State stores: hand the values of variables to steps, and take the new values back."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any

import jax

from muster.distribute.engine._replica_values import ReplicaValues
from muster.distribute.engine._traced import Reads, State
from muster.program.trace import FunctionProgram, reduced_path
from muster.program.variables import set_values, unshared_values, values_of


class StateStore(ABC):
    """Holds the values of the variables of a step, which goes ``take``, compute, ``give``.

    A placement can wrap a store in another one, which pulls in ``take`` and pushes in ``give``.
    """

    @property
    @abstractmethod
    def keys(self) -> Sequence[Hashable | None]:
        """Identify the variables of the flat state, then of the flat reads; None for per-replica values."""

    @abstractmethod
    def take(self) -> tuple[State, Reads]:
        """Return the values for a step: the state, which it may overwrite, and those that it only reads."""

    @abstractmethod
    def give(self, state: State) -> None:
        """Store the state that the step has returned."""

    @abstractmethod
    def peek(self) -> State:
        """Return the current state, to be read."""


class ArrayStore(StateStore):
    """Holds arrays in a nested structure: the state of an Estimator, or of ``fit``.

    Args:
        state: The values of the variables.
        keys: The identities of the variables, in the order of the flat state.
    """

    def __init__(self, state: State, keys: Sequence[Hashable] = ()) -> None:
        self._state = state
        self._keys = keys

    @property
    def keys(self) -> Sequence[Hashable | None]:
        return self._keys

    def take(self) -> tuple[State, Reads]:
        return self._state, ()

    def give(self, state: State) -> None:
        self._state = state

    def peek(self) -> State:
        return self._state


class VariableStore(StateStore):
    """Holds the variables of a function, whose values the user's code can read between calls.

    With more than one replica a step takes and returns all variables as state, which moves them to the
    devices once. With one replica, variables that it only reads are no state: passing 160 arrays through a
    program takes 130 µs.

    Args:
        program: The function.
        replicated: Whether it runs on more than one replica.
        sharding: The sharding of its variables; None leaves them where they are.
        replica_values: The values of its "on_read" variables; None without a strategy.

    Attributes:
        changes: The paths of the variables in the state.
        reads: The paths of the variables that a step only reads.
        per_replica: The paths of the variables with per-replica values.
        aggregates: The paths of the aggregates that a step returns of per-replica variables that it assigns.
    """

    def __init__(
        self,
        program: FunctionProgram[Any],
        *,
        replicated: bool,
        sharding: jax.sharding.Sharding | None,
        replica_values: ReplicaValues | None,
    ) -> None:
        shared = {spec.path: variable for spec, variable in program.used if not spec.per_replica}
        changes = {path: v for path, v in shared.items() if replicated or path in program.assigned}
        reads = {path: v for path, v in shared.items() if path not in changes}
        per_replica = [(spec, variable) for spec, variable in program.used if spec.per_replica]
        aggregates = {reduced_path(spec.path): v for spec, v in per_replica if spec.path in program.assigned}
        self.changes, self.reads, self.aggregates = tuple(changes), tuple(reads), tuple(aggregates)
        self.per_replica = tuple(spec.path for spec, _ in per_replica)
        self._changes, self._reads = list(changes.values()), list(reads.values())
        self._per_replica, self._aggregates = per_replica, list(aggregates.values())
        self._replica_values = replica_values
        self._sharding = sharding
        self._last_shardings: list[jax.sharding.Sharding] = []

    @property
    def keys(self) -> Sequence[Hashable | None]:
        return [*map(id, self._changes), *[None] * len(self._per_replica), *map(id, self._reads)]

    @property
    def shared_variables(self) -> list[Any]:
        """The variables that have one value on all replicas."""
        return [*self._changes, *self._reads]

    @property
    def per_replica_variables(self) -> list[Any]:
        """The variables with per-replica values."""
        return [variable for _, variable in self._per_replica]

    def take(self) -> tuple[State, Reads]:
        state, reads = unshared_values(self._changes), values_of(self._reads)
        if self._sharding is not None:
            # Lists of the same objects compare fast, and mostly they are the same as the last time.
            shardings = [value.sharding for value in (*state, *reads)]
            if shardings != self._last_shardings and any(each != self._sharding for each in shardings):
                state, reads = self._moved(state), self._moved(reads)
                set_values(self._reads, reads)
            else:
                self._last_shardings = shardings
        if self._per_replica and self._replica_values is not None:
            state += self._replica_values.take(self._per_replica)
        return state, reads

    def give(self, state: State) -> None:
        set_values(self._changes, state)
        if self._per_replica and self._replica_values is not None:
            begin = len(self._changes)
            end = begin + len(self._per_replica)
            set_values(self._aggregates, state[end:])
            self._replica_values.give(self._per_replica, state[begin:end])

    def peek(self) -> State:
        return values_of(self._changes)

    def _moved(self, values: list[jax.Array]) -> list[jax.Array]:
        """Return values with the sharding of the strategy."""
        return [v if v.sharding == self._sharding else jax.device_put(v, self._sharding) for v in values]
