"""OneDeviceStrategy: one replica on a named device."""

import re

import jax
from jax.sharding import SingleDeviceSharding

from muster.distribute.engine._device import DeviceEngine
from muster.distribute.engine._placement import Placement
from muster.distribute.strategies._strategy import Strategy

_DEVICE = re.compile(
    r"^(?:/?(?:job|replica|task):\w+)*/?(?:device:)?(?P<kind>cpu|gpu|tpu):(?P<index>\d+)$", re.I
)


def device_of(name: str | jax.Device) -> jax.Device:
    """Return the local device that a TensorFlow device string names.

    Args:
        name: Such as ``"/gpu:0"``, ``"/device:CPU:0"`` or ``"/job:worker/task:0/cpu:1"``; or a
            ``jax.Device``; or an object with such a ``name``, as ``tf.config.list_logical_devices`` returns.

    Raises:
        ValueError: The name cannot be read, or there is no such device.
    """
    if isinstance(name, jax.Device):
        return name
    text = getattr(name, "name", name)
    match = _DEVICE.match(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"The device {name!r} cannot be read: write it as '/cpu:0' or '/gpu:1'.")
    kind, index = match["kind"].lower(), int(match["index"])
    try:
        devices = jax.local_devices(backend=kind)
    except RuntimeError:
        devices = []
    if index >= len(devices):
        raise ValueError(
            f"There is no device {name!r} here. JAX has: {', '.join(_names())}.{_more(kind, index)}"
        )
    return devices[index]


def _more(kind: str, index: int) -> str:
    """Say how JAX comes to have a device: the CPU is as many devices as a program wants."""
    if kind != "cpu":
        return ""
    return (
        f" To divide the CPU into {index + 1} devices, write this line before JAX is first used: "
        f'jax.config.update("jax_num_cpu_devices", {index + 1})'
    )


def _names() -> list[str]:
    """Return the names of all devices of this process, those of JAX's default backend first."""
    kinds = dict.fromkeys([jax.default_backend(), "cpu"])
    return [f"/{kind}:{i}" for kind in kinds for i in range(len(jax.local_devices(backend=kind)))]


class OneDeviceStrategy(Strategy):
    """Puts the variables and the computation of one replica on one device.

    Args:
        device: A TensorFlow device string such as ``"/gpu:0"``, or a ``jax.Device``.

    Raises:
        ValueError: There is no such device.

    Source: tensorflow/python/distribute/one_device_strategy.py, ``OneDeviceStrategy``.

    Example:
        ```python
        with muster.distribute.OneDeviceStrategy("/cpu:0").scope():
            variable = keras.Variable(1.0)
        ```
    """

    def __init__(self, device: str | jax.Device) -> None:
        super().__init__(Placement(SingleDeviceSharding(device_of(device))), DeviceEngine())
