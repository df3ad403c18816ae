"""``tf.config``: what JAX sees, by TensorFlow's names."""

from typing import Any, NamedTuple

import jax

from muster.config import functions_run_eagerly as functions_run_eagerly
from muster.config import run_functions_eagerly as run_functions_eagerly


class PhysicalDevice(NamedTuple):
    """A device of this process.

    Source: tensorflow/python/eager/context.py, ``PhysicalDevice``.
    """

    name: str
    device_type: str


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices of this process, of one kind (``"CPU"``, ``"GPU"``, ``"TPU"``) or all.

    JAX looks for devices at this moment: set what it is to see before.
    """
    found = jax.local_devices()
    if found[0].platform != "cpu":
        found = [*found, *jax.local_devices(backend="cpu")]
    devices = [
        PhysicalDevice(f"/physical_device:{kind}:{device.local_hardware_id or 0}", kind)
        for device in found
        for kind in [device.platform.upper()]
    ]
    return [device for device in devices if device_type in (None, device.device_type)]


list_logical_devices = list_physical_devices


def experimental_connect_to_cluster(cluster_spec_or_resolver: Any, **options: Any) -> None:
    """Nothing: tasks find each other when the strategy is built."""
