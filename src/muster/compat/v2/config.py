"""``tf.config``: which devices there are, by TensorFlow's names, and what of them can be chosen."""

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax

from muster.cluster import ClusterResolver

_log = logging.getLogger(__name__)


class PhysicalDevice(NamedTuple):
    """What this machine has: its processor, which is one CPU, or an accelerator.

    Source: tensorflow/python/eager/context.py, ``PhysicalDevice``.
    """

    name: str
    device_type: str


class LogicalDevice(NamedTuple):
    """What a strategy can be given. A CPU may be several.

    Source: tensorflow/python/eager/context.py, ``LogicalDevice``.
    """

    name: str
    device_type: str


class LogicalDeviceConfiguration(NamedTuple):
    """One of the logical devices that a physical one is to be.

    Source: tensorflow/python/eager/context.py, ``LogicalDeviceConfiguration``.
    """

    memory_limit: int | None = None
    experimental_priority: int | None = None


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices of this machine, of one kind (``"CPU"``, ``"GPU"``, ``"TPU"``) or all.

    JAX looks for accelerators at this moment, unless only the CPU is asked for.
    """
    devices = [PhysicalDevice("/physical_device:CPU:0", "CPU")]
    if device_type != "CPU":
        devices += [
            PhysicalDevice(f"/physical_device:{kind}:{device.local_hardware_id or 0}", kind)
            for device in jax.local_devices()
            if (kind := device.platform.upper()) != "CPU"
        ]
    return [device for device in devices if device_type in (None, device.device_type)]


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """The devices that JAX computes on, of one kind or all; it looks for them at this moment."""
    found = jax.local_devices(backend="cpu")
    if jax.default_backend() != "cpu":
        found = [*found, *jax.local_devices()]
    kinds = [device.platform.upper() for device in found]
    devices = [
        LogicalDevice(f"/device:{kind}:{kinds[:place].count(kind)}", kind) for place, kind in enumerate(kinds)
    ]
    return [device for device in devices if device_type in (None, device.device_type)]


def set_visible_devices(
    devices: PhysicalDevice | Sequence[PhysicalDevice], device_type: str | None = None
) -> None:
    """Accepted for all devices of a kind, which are visible anyway.

    Args:
        devices: as `list_physical_devices` has them.
        device_type: which kind; None for all.

    Raises:
        RuntimeError: Some are to be hidden. JAX has found them by now.

    Source: tensorflow/python/framework/config.py, ``set_visible_devices``.
    """
    wanted = [devices] if isinstance(devices, PhysicalDevice) else list(devices)
    if hidden := [each for each in list_physical_devices(device_type) if each not in wanted]:
        raise RuntimeError(
            f"Visible devices cannot be modified here: {', '.join(each.name for each in hidden)} would be "
            "hidden. Set CUDA_VISIBLE_DEVICES, or JAX_PLATFORMS=cpu, before the program starts, or give the "
            "strategy the devices that it is to use."
        )


def get_visible_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """All devices of this machine: what JAX was not to see is not among them."""
    return list_physical_devices(device_type)


def set_logical_device_configuration(
    device: PhysicalDevice, logical_devices: Sequence[LogicalDeviceConfiguration]
) -> None:
    """Let the CPU be several devices, to try strategies on.

    Args:
        device: the CPU of `list_physical_devices`.
        logical_devices: one for each.

    Raises:
        RuntimeError: It is no CPU: a GPU is one device. Or JAX has set its devices up already.
        ValueError: The CPU's memory is to be limited.

    Source: tensorflow/python/framework/config.py, ``set_logical_device_configuration``.
    """
    if device.device_type != "CPU":  # as where it is too late, which TensorFlow's programs are ready for
        raise RuntimeError(
            f"{device.name} is one device here: only a CPU can be several. XLA_PYTHON_CLIENT_MEM_FRACTION "
            "says how much of a GPU's memory JAX takes."
        )
    if any(each.memory_limit is not None for each in logical_devices):
        raise ValueError(f"The memory of {device.name} cannot be limited: leave memory_limit away.")
    try:
        jax.config.update("jax_num_cpu_devices", len(logical_devices))
    except RuntimeError as exc:
        raise RuntimeError(
            "Virtual devices cannot be modified after being initialized: JAX has set its devices up. Call "
            "this before all else."
        ) from exc


def set_memory_growth(device: PhysicalDevice, enable: bool) -> None:
    """Accepted; an environment variable says it to JAX, and a line of the log says so.

    Args:
        device: whichever.
        enable: whether a GPU's memory is to be taken as it is needed.
    """
    if enable:
        _log.warning(
            "set_memory_growth has no effect: set XLA_PYTHON_CLIENT_PREALLOCATE=false before the program "
            "starts, if %s is to be shared with other programs.",
            device.name,
        )


def set_soft_device_placement(enabled: bool) -> None:
    """Accepted; a line of the log says that it has no effect.

    Args:
        enabled: whether another device is to take the place of one that does not exist.
    """
    if enabled:
        _log.warning("set_soft_device_placement has no effect: a device that does not exist is an error.")


def set_log_device_placement(enabled: bool) -> None:
    """Accepted; a line of the log says what to ask instead.

    Args:
        enabled: whether the log is to say where each operation runs: most are parts of a compiled function.
    """
    if enabled:
        _log.warning("set_log_device_placement has no effect: array.devices() says where an array is.")


def set_jit(enabled: bool | str) -> None:
    """Accepted: everything is compiled."""


def experimental_connect_to_cluster(cluster_spec_or_resolver: Any, **options: Any) -> None:
    """Nothing: tasks find each other when the strategy is built."""


def initialize_tpu_system(cluster_resolver: ClusterResolver | None = None) -> None:
    """Accept the call and do nothing: JAX sets up a host's TPUs when it looks for devices."""


def shutdown_tpu_system(cluster_resolver: ClusterResolver | None = None) -> None:
    """Accept the call and do nothing: JAX releases a host's TPUs when the process ends."""
