"""CentralStorageStrategy: variables on one device, a replica on each device."""

from collections.abc import Sequence

import jax
from jax.sharding import SingleDeviceSharding

from muster.distribute.engine._placement import Placement
from muster.distribute.engine._storage import StorageEngine
from muster.distribute.strategies._mirrored import MirroredStrategy
from muster.distribute.strategies._one_device import device_of


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
        self.placement = Placement(storage, self.placement.per_replica, local_replicas=self.local_replicas)
