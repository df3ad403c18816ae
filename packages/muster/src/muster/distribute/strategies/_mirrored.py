"""MirroredStrategy: a replica on each of this process' devices."""

from collections.abc import Sequence
from typing import TypedDict

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

from muster.distribute.engine._device import DeviceEngine
from muster.distribute.engine._mesh import AXIS, MeshEngine
from muster.distribute.engine._packing import ONE_PACK, Packing
from muster.distribute.engine._placement import Placement
from muster.distribute.engine._traced import Engine
from muster.distribute.strategies._cross_device_ops import CrossDeviceOps
from muster.distribute.strategies._one_device import device_of
from muster.distribute.strategies._strategy import Strategy
from muster.distribute.workers._workers import Workers


class MirroredStrategy(Strategy):
    """Trains on several devices of one process: each has the variables and a batch; gradients are reduced.

    Args:
        devices: TensorFlow device strings or ``jax.Device`` s; None or none, such as the GPUs of a host that
            has no GPU, takes all accelerators, else the CPU, or all logical devices that it is divided into.
        cross_device_ops: The number of collectives in a step; None for one.

    Raises:
        ValueError: A device does not exist or is named twice, or they are of several kinds.
        TypeError: ``cross_device_ops`` has another type.

    Source: tensorflow/python/distribute/mirrored_strategy.py, ``MirroredStrategy``.
    """

    def __init__(
        self,
        devices: Sequence[str | jax.Device] | None = None,
        cross_device_ops: CrossDeviceOps | None = None,
    ) -> None:
        if cross_device_ops is not None and not isinstance(cross_device_ops, CrossDeviceOps):
            raise TypeError(
                "`cross_device_ops` must be one of NcclAllReduce, HierarchicalCopyAllReduce and "
                f"ReductionToOneDevice, got {cross_device_ops!r}."
            )
        if devices is not None and not isinstance(devices, str) and not len(devices):
            devices = None
        mesh = Mesh(np.array(local_devices(devices)), (AXIS,))
        packing = (cross_device_ops or CrossDeviceOps()).packing
        super().__init__(**on_mesh(mesh, packing), local_replicas=mesh.size)


class _Choice(TypedDict):
    placement: Placement
    engine: Engine


def on_mesh(mesh: Mesh, packing: Packing = ONE_PACK, workers: Workers | None = None) -> _Choice:
    """Return the placement and the engine of replicas on the devices of a mesh."""
    local = len(mesh.local_devices)
    if mesh.size == 1:  # there is nothing to reduce
        return {
            "placement": Placement(SingleDeviceSharding(mesh.local_devices[0]), workers=workers),
            "engine": DeviceEngine(),
        }
    everywhere, by_replica = NamedSharding(mesh, P()), NamedSharding(mesh, P(AXIS))
    return {
        "placement": Placement(everywhere, by_replica, workers, local),
        "engine": MeshEngine(mesh, workers, packing),
    }


def local_devices(names: Sequence[str | jax.Device] | None = None) -> list[jax.Device]:
    """Return the devices of names; without names, all accelerators, else the CPU, or all parts of it."""
    if names is None:
        devices: list[jax.Device] = jax.local_devices()
        return devices
    if isinstance(names, str):
        raise ValueError(f"`devices` must be a list of devices, got the text {names!r}: write [{names!r}].")
    devices = [device_of(name) for name in names]
    if len(set(devices)) < len(devices):
        raise ValueError(f"Every device may be given once, got {list(names)}.")
    if len({device.platform for device in devices}) > 1:
        raise ValueError(f"The devices must be of one kind, got {list(names)}.")
    return devices
