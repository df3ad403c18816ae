"""TensorFlow's classes of reductions over a process's devices; XLA does the reduction."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from muster.distribute.engine._packing import ONE_PACK, Packing
from muster.distribute.strategies._one_device import device_of


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
