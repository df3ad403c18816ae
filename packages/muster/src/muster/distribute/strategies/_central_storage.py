"""CentralStorageStrategy: variables on one device, a replica on each device."""

from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import Sharding, SingleDeviceSharding

from muster.distribute.engine._placement import Placement
from muster.distribute.engine._traced import Engine, Executables, Reads, State, Step, Traced
from muster.distribute.strategies._mirrored import MirroredStrategy
from muster.distribute.strategies._one_device import device_of


class StorageEngine(Engine):
    """Moves variables to the replicas before each step of another engine, and back to their storage after it.

    Args:
        engine: Compiles the steps.
        compute: The sharding of variables in steps.
        storage: The sharding of variables between steps. Per-replica values stay with their replicas.
    """

    def __init__(self, engine: Engine, compute: Sharding | None, storage: Sharding) -> None:
        self._engine = engine
        self._compute = compute
        self._storage = storage

    def compile(self, traced: Traced, executables: Executables) -> Step:
        step = self._engine.compile(traced, executables)

        def stored(state: State, reads: Reads, batch: Any) -> tuple[State, Any]:
            state = _moved(traced.state_sharded, state, self._compute)
            state, results = step(state, jax.device_put(reads, self._compute), batch)
            return _moved(traced.new_state_sharded, state, self._storage), results

        return stored


def _moved(per_replica: Any, state: State, to: Sharding | None) -> State:
    return jax.tree.map(lambda stays, part: part if stays else jax.device_put(part, to), per_replica, state)


class CentralStorageStrategy(MirroredStrategy):
    """Keeps variables in the host's memory, and computes on several devices of one process.

    In each step the replicas take copies of the variables, and their new values go back.

    Args:
        compute_devices: TensorFlow device strings or ``jax.Device`` s; None takes all accelerators, else one
            CPU.
        parameter_device: The device of the variables; None for the host.

    Raises:
        ValueError: A device does not exist or is named twice, or they are of several kinds.

    Source: tensorflow/python/distribute/central_storage_strategy.py, ``CentralStorageStrategy``. There
    variables stay on the GPU if there is only one; here they are on the host.
    """

    def __init__(
        self,
        compute_devices: Sequence[str | jax.Device] | None = None,
        parameter_device: str | jax.Device | None = None,
    ) -> None:
        super().__init__(compute_devices)
        storage = SingleDeviceSharding(device_of(parameter_device or "/cpu:0"))
        self.engine = StorageEngine(self.engine, self.placement.sharding, storage)
        self.placement = Placement(
            storage, self.placement.per_replica, local_replicas=self.local_replicas, has_copies=False
        )
