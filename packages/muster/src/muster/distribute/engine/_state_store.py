"""State stores: hand the values of variables to steps, and take the new values back."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import jax

from muster._arrays import LazyArray
from muster.checkpoint import Parts
from muster.distribute.engine._hashed_columns import is_hashed
from muster.distribute.engine._replica_values import ReplicaValues
from muster.distribute.engine._served_steps import ServedState
from muster.distribute.engine._traced import Reads, State
from muster.program.trace import FunctionProgram, reduced_path
from muster.program.variables import together, unshared_values
from muster.program.variables.keras_internals import set_values, values_of


class StateStore(ABC):
    """Holds the values of variables between steps: a step takes them, computes, and gives new ones back.

    A placement can wrap a store in another one, such as one that pulls from a server in ``take`` and pushes
    in ``give``.

    Attributes:
        keys: The identities of the variables of the flat state, then of the flat reads; None for per-replica
            values.
    """

    keys: Sequence[Hashable | None]

    @abstractmethod
    def take(self) -> tuple[State, Reads]:
        """Return the values for a step: the state, which it may overwrite, and those that it only reads."""

    @abstractmethod
    def give(self, state: State) -> None:
        """Store the state that the step has returned."""

    @abstractmethod
    def peek(self) -> State:
        """Return the current state, to be read."""

    def renew(self) -> bool:
        """Take over what others have changed since the last step; return whether there are such others."""
        return False

    @property
    def lacks_rows(self) -> bool:
        """True if there are hashed tables, and no step was prepared, so that they have no rows to save."""
        return False

    def to_save(self) -> tuple[Mapping[str, Any], Parts | None]:
        """Return the values of variables that this process saves by path, and the parts that others write."""
        return self.peek(), None


class ArrayStore(StateStore):
    """Holds arrays in a nested structure: the state of an Estimator, or of ``fit``.

    Beside parameter servers that is a `ServedState`, once the first step has met them.

    Args:
        state: The values of the variables.
        keys: The identities of the variables, in the order of the flat state.
    """

    def __init__(self, state: State, keys: Sequence[Hashable] = ()) -> None:
        self._state = state
        self.keys = keys

    def take(self) -> tuple[State, Reads]:
        return self._state, ()

    def give(self, state: State) -> None:
        if isinstance(self._state, ServedState) and not isinstance(state, ServedState):
            state = self._state.with_own(state)
        self._state = state

    def peek(self) -> State:
        return self._state

    def renew(self) -> bool:
        if not isinstance(self._state, ServedState) or self._state.alone:
            return False
        self._state = self._state.renewed()
        return True

    @property
    def lacks_rows(self) -> bool:
        if isinstance(self._state, ServedState) or not isinstance(self._state, Mapping):
            return False
        values = self._state.values()
        return any(isinstance(each, LazyArray) and is_hashed(each.shape) for each in values)

    def to_save(self) -> tuple[Mapping[str, Any], Parts | None]:
        return self._state.to_save() if isinstance(self._state, ServedState) else (self._state, None)


class VariableStore(StateStore):
    """Keeps the values of a function's variables in the variables, where user code can read them.

    With one replica, only variables that the function assigns are state; the others are passed as reads,
    which a step does not return: returning 160 arrays takes 130 µs. With more replicas all variables are
    state, so that they move to the devices once.

    Args:
        program: The function.
        replicated: Whether it runs on more than one replica.
        sharding: The sharding of its variables; None leaves them where they are.
        replica_values: The values of its "on_read" variables.

    Attributes:
        paths: The path of each value of the state, then of the reads.
        state_sharded: Whether each value of the state is per replica.
        new_state_paths: The path of each value of the state that a step returns: those of the state, then the
            aggregates of the per-replica variables that it assigns.
        new_state_sharded: Whether each of these values is per replica.
        shared_variables: The variables that have one value on all replicas.
        per_replica_variables: The variables with per-replica values.
    """

    def __init__(
        self,
        program: FunctionProgram[Any],
        *,
        replicated: bool,
        sharding: jax.sharding.Sharding | None,
        replica_values: ReplicaValues,
    ) -> None:
        shared = {spec.path: variable for spec, variable in program.used if not spec.per_replica}
        changes = {path: v for path, v in shared.items() if replicated or path in program.assigned}
        reads = {path: v for path, v in shared.items() if path not in changes}
        per_replica = {spec.path: (spec, v) for spec, v in program.used if spec.per_replica}
        aggregates = {reduced_path(p): v for p, (_, v) in per_replica.items() if p in program.assigned}
        self.paths = [*changes, *per_replica, *reads]
        self.state_sharded = [False] * len(changes) + [True] * len(per_replica)
        self.new_state_paths = [*changes, *per_replica, *aggregates]
        self.new_state_sharded = self.state_sharded + [False] * len(aggregates)
        self._changes, self._reads = list(changes.values()), list(reads.values())
        self._per_replica, self._aggregates = list(per_replica.values()), list(aggregates.values())
        self.shared_variables = [*self._changes, *self._reads]
        self.per_replica_variables = [variable for _, variable in self._per_replica]
        self.keys = [*map(id, self._changes), *[None] * len(per_replica), *map(id, self._reads)]
        self._replica_values = replica_values
        self._sharding = sharding
        self._last_shardings: list[jax.sharding.Sharding] = []

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
        if self._per_replica:
            state += self._replica_values.take(self._per_replica)
        return state, reads

    def give(self, state: State) -> None:
        set_values(self._changes, state)
        if self._per_replica:
            begin = len(self._changes)
            end = begin + len(self._per_replica)
            set_values(self._aggregates, state[end:])
            self._replica_values.give(self._per_replica, state[begin:end])

    def peek(self) -> State:
        return values_of(self._changes)

    def _moved(self, values: list[jax.Array]) -> list[jax.Array]:
        """Return values with the sharding of the strategy."""
        return [v if v.sharding == self._sharding else jax.device_put(v, self._sharding) for v in values]


class RemoteStore(StateStore):
    """Reads and writes the variables of a store together: some of them are kept elsewhere.

    Args:
        store: The store.
    """

    def __init__(self, store: VariableStore) -> None:
        self._store = store
        self.keys = store.keys

    def take(self) -> tuple[State, Reads]:
        with together(self._store.shared_variables):
            return self._store.take()

    def give(self, state: State) -> None:
        with together(self._store.shared_variables):
            self._store.give(state)

    def peek(self) -> State:
        with together(self._store.shared_variables):
            return self._store.peek()
