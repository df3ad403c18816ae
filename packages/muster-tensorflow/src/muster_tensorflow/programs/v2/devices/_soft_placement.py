"""Soft device placement: strategies that name missing GPUs run on the CPU."""

import logging
from collections.abc import Sequence
from typing import Any

import jax

from muster import distribute
from muster.distribute import CrossDeviceOps

_log = logging.getLogger(__name__)


def placed(devices: Sequence[Any]) -> list[Any]:
    """Return devices; where there are no GPUs, CPUs in the place of them, of which there may be fewer.

    Source: ``tf.config.set_soft_device_placement``, which is on by default.
    """
    names = [getattr(each, "name", each) for each in devices]
    if jax.default_backend() != "cpu" or not all(
        isinstance(name, str) and "gpu" in name.lower() for name in names
    ):
        return list(devices)
    found: list[Any] = jax.local_devices()[: len(names)]
    _log.warning(
        "There is no %s here: the CPU computes, as TensorFlow lets it, for %d replica%s.",
        *(", ".join(names), len(found), "" if len(found) == 1 else "s"),
    )
    return found


class MirroredStrategy(distribute.MirroredStrategy):
    """A `muster.distribute.MirroredStrategy` that takes CPUs where there are no GPUs.

    Args:
        devices: As of the strategy. Of GPUs, where there are none, it takes as many CPUs, if there are.
        cross_device_ops: As of the strategy.

    Raises:
        ValueError: As of the strategy.
        TypeError: Likewise.
    """

    def __init__(
        self,
        devices: Sequence[str | jax.Device] | None = None,
        cross_device_ops: CrossDeviceOps | None = None,
    ) -> None:
        if devices is not None and not isinstance(devices, str) and len(devices):
            devices = placed(devices)
        super().__init__(devices, cross_device_ops)


class OneDeviceStrategy(distribute.OneDeviceStrategy):
    """A `muster.distribute.OneDeviceStrategy` that takes the CPU where there are no GPUs.

    Args:
        device: As of the strategy.

    Raises:
        ValueError: As of the strategy.
    """

    def __init__(self, device: str | jax.Device) -> None:
        super().__init__(placed([device])[0])
