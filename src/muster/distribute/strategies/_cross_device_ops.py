"""How the values of a process' devices are added: the names of TensorFlow, and what XLA makes of them."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from muster.distribute.engine._packing import ONE_PACK, Packing
from muster.distribute.strategies._one_device import device_of


class CrossDeviceOps:
    """How the values of a process' devices are added.

    XLA chooses the algorithm by the devices: NCCL's rings and trees between GPUs, the torus between TPU
    cores, memory in common between CPU devices. What these classes decide is in how many collectives values
    travel.

    Attributes:
        packing: which values are added together.

    Source: tensorflow/python/distribute/cross_device_ops.py, ``CrossDeviceOps``.
    """

    packing = ONE_PACK


class NcclAllReduce(CrossDeviceOps):
    """Add by NCCL where there are GPUs, which XLA does anyway; elsewhere as XLA does there.

    Args:
        num_packs: in how many collectives the values that meet at one place travel, cut into equal parts; 0
            for one each.

    Raises:
        ValueError: ``num_packs`` is negative.
        TypeError: it is no whole number.

    Source: tensorflow/python/distribute/cross_device_ops.py, ``NcclAllReduce``.
    """

    def __init__(self, num_packs: int = 1) -> None:
        self.packing = _packing("NCCL all-reduce", num_packs)


class HierarchicalCopyAllReduce(CrossDeviceOps):
    """TensorFlow's way for the GPUs of a DGX-1; XLA takes the shape of the network into account by itself.

    Args:
        num_packs: as for `NcclAllReduce`.

    Raises:
        ValueError: ``num_packs`` is negative.
        TypeError: it is no whole number.

    Source: tensorflow/python/distribute/cross_device_ops.py, ``HierarchicalCopyAllReduce``.
    """

    def __init__(self, num_packs: int = 1) -> None:
        self.packing = _packing("HierarchicalCopy", num_packs)


class ReductionToOneDevice(CrossDeviceOps):
    """TensorFlow's way without collectives: a device adds, and sends the sum to the others.

    Every replica needs the sum, and XLA's all-reduce gives it to all of them at once, for less traffic at any
    one device. So both arguments are checked, and change nothing.

    Args:
        reduce_to_device: the device that would add.
        accumulation_fn: how it would add a list of arrays.

    Raises:
        ValueError: there is no such device, or the function does something other than to add.

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


def _packing(what: str, num_packs: int) -> Packing:
    if not isinstance(num_packs, int):
        raise TypeError(f"`num_packs` must be a whole number, got {num_packs!r}.")
    if num_packs < 0:
        raise ValueError(f"{what} requires num_packs >= 0, but {num_packs} is specified")
    return Packing(num_packs=num_packs)
