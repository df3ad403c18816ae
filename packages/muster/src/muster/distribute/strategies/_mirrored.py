"""MirroredStrategy: a replica on each of this process' devices; its reductions, which XLA does."""

from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

from muster.distribute.engine._device import DeviceEngine
from muster.distribute.engine._mesh import AXIS, MeshEngine
from muster.distribute.engine._packing import ONE_PACK, Packing
from muster.distribute.engine._placement import Placement
from muster.distribute.engine._traced import Engine
from muster.distribute.engine._uneven import UnevenEngine
from muster.distribute.strategies._one_device import device_of
from muster.distribute.strategies._strategy import Strategy
from muster.distribute.workers._workers import Workers


class CrossDeviceOps:
    """Reduces values over the devices of a process.

    XLA chooses the algorithm by the devices: NCCL's rings and trees between GPUs, the torus between TPU
    cores, shared memory between CPU devices. These classes only decide the number of collectives.

    Attributes:
        packing: The values that share a collective.

    Source: tensorflow/python/distribute/cross_device_ops.py, ``CrossDeviceOps``.
    """

    packing = ONE_PACK


class NcclAllReduce(CrossDeviceOps):
    """Reduces by NCCL on GPUs, as XLA does anyway; on other devices as XLA chooses.

    Args:
        num_packs: The number of collectives, for equal parts of all values that are reduced at one point; 0
            for one collective a value.

    Raises:
        ValueError: ``num_packs`` is negative.
        TypeError: ``num_packs`` is not an integer.

    Source: tensorflow/python/distribute/cross_device_ops.py, ``NcclAllReduce``.
    """

    def __init__(self, num_packs: int = 1) -> None:
        self.packing = _packing("NCCL all-reduce", num_packs)


class HierarchicalCopyAllReduce(CrossDeviceOps):
    """Stands for TensorFlow's reduction on a DGX-1; XLA considers the network's topology by itself.

    Args:
        num_packs: The number of collectives, as in `NcclAllReduce`.

    Raises:
        ValueError: ``num_packs`` is negative.
        TypeError: ``num_packs`` is not an integer.

    Source: tensorflow/python/distribute/cross_device_ops.py, ``HierarchicalCopyAllReduce``.
    """

    def __init__(self, num_packs: int = 1) -> None:
        self.packing = _packing("HierarchicalCopy", num_packs)


class ReductionToOneDevice(CrossDeviceOps):
    """Stands for TensorFlow's reduction on one device, which sends the sum to the others.

    XLA's all-reduce gives the sum to all replicas at once, with less traffic at each device. So both
    arguments are checked, and change nothing.

    Args:
        reduce_to_device: The device that would add.
        accumulation_fn: The function that would add a list of arrays.

    Raises:
        ValueError: There is no such device, or the function does not add.

    Source: tensorflow/python/distribute/cross_device_ops.py, ``ReductionToOneDevice``.
    """

    def __init__(
        self,
        reduce_to_device: str | jax.Device | None = None,
        accumulation_fn: Callable[[Sequence[Any]], Any] | None = None,
    ) -> None:
        if reduce_to_device is not None:
            device_of(reduce_to_device)
        if accumulation_fn is not None:
            parts = [np.array([value], np.float32) for value in (1, 2, 4)]
            if not np.array_equal(accumulation_fn(parts), [7]):
                raise ValueError(
                    f"`accumulation_fn` must add its arguments, and {accumulation_fn!r} does not: XLA adds "
                    "the values of replicas. Leave it out, and use all_gather to combine them otherwise."
                )


def _packing(name: str, num_packs: int) -> Packing:
    if not isinstance(num_packs, int):
        raise TypeError(f"`num_packs` must be an integer, got {num_packs!r}.")
    if num_packs < 0:
        raise ValueError(f"{name} requires num_packs >= 0, but {num_packs} is specified")
    return Packing(num_packs=num_packs)


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

    Example:
        ```python
        strategy = muster.distribute.MirroredStrategy()  # all GPUs, or the CPU
        with strategy.scope():
            model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
            model.compile("sgd", "mse")
        model.fit(np.ones((8, 4)), np.ones((8, 1)), verbose=0)
        ```
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
        "engine": UnevenEngine(MeshEngine(mesh, workers, packing)),
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
