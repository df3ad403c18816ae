"""Placements: where the values of variables live."""

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from muster._arrays import LazyArray
from muster.distribute.engine._exchange import local_copy
from muster.distribute.engine._mesh import replicated_on
from muster.distribute.engine._replica_values import ReplicaValues
from muster.distribute.engine._rows_in_files import on_device
from muster.distribute.engine._split import Split
from muster.distribute.engine._state_store import RemoteStore, StateStore, VariableStore
from muster.distribute.workers._workers import SingleWorker, Workers
from muster.program.variables import ByIdentity, Storage, storage_of, unshared_values
from muster.program.variables.keras_internals import set_values, values_of


class Placement:
    """Chooses where variables live between steps, and puts their values there.

    Args:
        sharding: The sharding of variables with one value on all replicas; None for JAX's default device.
        per_replica: The sharding of per-replica values, along their first axis; None for ``sharding``.
        workers: The processes, which start from the chief's values.
        local_replicas: The number of replicas of each process.
        storage: What holds the values of variables that are created in the scope; None if they do themselves.
        has_copies: Whether each replica has a copy of a variable, which without an aggregation is its own.

    Attributes:
        sharding: The sharding of variables with one value on all replicas.
        per_replica: The sharding of per-replica values.
        replica_values: The values of this process' replicas.
    """

    def __init__(
        self,
        sharding: jax.sharding.Sharding | None,
        per_replica: jax.sharding.Sharding | None = None,
        workers: Workers | None = None,
        local_replicas: int = 1,
        storage: Storage | None = None,
        has_copies: bool = True,
    ) -> None:
        self.storage = storage
        self.has_copies = has_copies
        self.sharding = sharding
        self.per_replica = per_replica or sharding
        self._workers = workers or SingleWorker()
        split = Split(self._workers.in_loops.share_of(local_replicas))
        self.replica_values = ReplicaValues(split, self.per_replica)
        self._seen: ByIdentity[bool] = ByIdentity()

    def start(self, values: Sequence[Any]) -> list[jax.Array]:
        """Place initial values where variables live: the chief's on all workers.

        Args:
            values: Arrays on the host, on any device, or not in memory yet; global.
        """
        if self._workers.size == 1:
            values = [
                on_device(value, self.sharding) if isinstance(value, LazyArray) else value for value in values
            ]
        else:
            values = self._workers.broadcast([np.asarray(value) for value in values])
        if self.sharding is None or self.sharding.is_fully_addressable:
            return jax.device_put(list(values), self.sharding)  # type: ignore[no-any-return]
        return [jax.make_array_from_process_local_data(self.sharding, value) for value in values]

    def start_new(self, variables: Sequence[Any], values: Sequence[jax.Array]) -> list[jax.Array]:
        """Return the values of variables; those of variables that are new here placed, as by `start`."""
        fresh = [i for i, variable in enumerate(variables) if variable not in self._seen]
        if not fresh:
            return list(values)
        started = dict(zip(fresh, self.start([values[i] for i in fresh]), strict=True))
        for i in fresh:
            self._seen[variables[i]] = True
        return [started.get(i, value) for i, value in enumerate(values)]

    def know(self, variables: Iterable[Any]) -> None:
        """Leave variables as they are when steps begin to use them: all workers have their values already."""
        for variable in variables:
            self._seen[variable] = True

    def start_variables(self, shared: Sequence[Any], others: Sequence[Any]) -> None:
        """Place the values of variables that are new here, as `start` does, but for those kept elsewhere.

        Args:
            shared: Variables whose arrays are donated to steps.
            others: Variables whose arrays are not.
        """
        shared, others = _here(shared), _here(others)
        # A placed value could share its buffer with the original, so nothing else may hold that.
        set_values(shared, self.start_new(shared, unshared_values(shared)))
        set_values(others, self.start_new(others, values_of(others)))

    def put(self, value: jax.Array) -> jax.Array:
        """Place a value that every process has where variables live."""
        sharding = self.sharding or SingleDeviceSharding(jax.devices()[0])
        if value.sharding == sharding:
            return value
        if sharding.is_fully_addressable:
            moved: jax.Array = jax.device_put(local_copy(value), sharding)
            return moved
        return replicated_on(sharding.mesh, value)  # type: ignore[attr-defined]

    def store(self, store: StateStore) -> StateStore:
        """Wrap the local store of a step, for values that live elsewhere."""
        if not isinstance(store, VariableStore):
            return store
        variables = store.shared_variables
        return RemoteStore(store) if len(_here(variables)) < len(variables) else store


def _here(variables: Sequence[Any]) -> list[Any]:
    return [variable for variable in variables if storage_of(variable) is None]
