"""``tf.config``: list devices by TensorFlow's names, and set them up."""

import logging
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax

from muster.cluster import ClusterResolver, ClusterSpec

_log = logging.getLogger(__name__)

_optimizer_options: dict[str, object] = {"disable_model_pruning": False, "disable_meta_optimizer": False}


class PhysicalDevice(NamedTuple):
    """An accelerator of this machine, or all its CPU cores as one device.

    Source: tensorflow/python/eager/context.py, ``PhysicalDevice``.
    """

    name: str
    device_type: str


class LogicalDevice(NamedTuple):
    """A device that strategies take; one CPU can be divided into several.

    Source: tensorflow/python/eager/context.py, ``LogicalDevice``.
    """

    name: str
    device_type: str


class LogicalDeviceConfiguration(NamedTuple):
    """The configuration of one of the logical devices that make up a physical one.

    Source: tensorflow/python/eager/context.py, ``LogicalDeviceConfiguration``.
    """

    memory_limit: int | None = None
    experimental_priority: int | None = None
    experimental_device_ordinal: int = 0


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """Return the devices of this machine, of one kind (``"CPU"``, ``"GPU"``, ``"TPU"``) or all.

    Unless only the CPU is wanted, this makes JAX look for accelerators.
    """
    devices = [PhysicalDevice("/physical_device:CPU:0", "CPU")]
    if device_type != "CPU":
        devices += [
            PhysicalDevice(f"/physical_device:{kind}:{device.local_hardware_id or 0}", kind)
            for device in jax.local_devices()
            if (kind := device.platform.upper()) != "CPU"
        ]
    return [device for device in devices if device_type in (None, device.device_type)]


get_visible_devices = list_physical_devices


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """Return the devices that JAX computes on, of one kind or all; this makes JAX look for them."""
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
    """Check that no device is left out: here all devices are visible.

    Args:
        devices: Devices of `list_physical_devices`.
        device_type: The kind; None for all.

    Raises:
        RuntimeError: A device is left out. JAX has found it by now and cannot hide it.

    Source: tensorflow/python/framework/config.py, ``set_visible_devices``.
    """
    wanted = [devices] if isinstance(devices, PhysicalDevice) else list(devices)
    if hidden := [each for each in list_physical_devices(device_type) if each not in wanted]:
        raise RuntimeError(
            f"Visible devices cannot be modified here: {', '.join(each.name for each in hidden)} would be "
            "hidden. Set CUDA_VISIBLE_DEVICES, or JAX_PLATFORMS=cpu, before the program starts, or give the "
            "strategy the devices that it is to use."
        )


def set_logical_device_configuration(
    device: PhysicalDevice, logical_devices: Sequence[LogicalDeviceConfiguration]
) -> None:
    """Divide the CPU into several devices, to try strategies on.

    Args:
        device: The CPU of `list_physical_devices`.
        logical_devices: One configuration for each device.

    Raises:
        RuntimeError: The device is not a CPU, or JAX has set up its devices already.
        ValueError: A configuration limits the memory.

    Source: tensorflow/python/framework/config.py, ``set_logical_device_configuration``.
    """
    if device.device_type != "CPU":  # TensorFlow programs catch this error
        raise RuntimeError(
            f"{device.name} is one device here: only a CPU can be several. XLA_PYTHON_CLIENT_MEM_FRACTION "
            "says how much of a GPU's memory JAX takes."
        )
    if any(each.memory_limit is not None for each in logical_devices):
        raise ValueError(f"The memory of {device.name} cannot be limited: leave memory_limit out.")
    try:
        jax.config.update("jax_num_cpu_devices", len(logical_devices))
    except RuntimeError as exc:
        raise RuntimeError(
            "Virtual devices cannot be modified after being initialized: JAX has set up its devices. Call "
            "this before all else."
        ) from exc


def set_memory_growth(device: PhysicalDevice, enable: bool) -> None:
    """Do nothing, but log the environment variable that lets JAX take memory as it is needed.

    Args:
        device: Any device.
        enable: Whether to take a GPU's memory as it is needed.
    """
    if enable:
        _log.warning(
            "set_memory_growth has no effect: set XLA_PYTHON_CLIENT_PREALLOCATE=false before the program "
            "starts, if %s is to be shared with other programs.",
            device.name,
        )


def set_soft_device_placement(enabled: bool) -> None:
    """Do nothing, but log that it has no effect.

    Args:
        enabled: Whether to replace a device that does not exist by another.
    """
    if enabled:
        _log.warning(
            "set_soft_device_placement has no effect: the CPU takes the place of GPUs where there are none, "
            "and any other device that does not exist is an error."
        )


def set_log_device_placement(enabled: bool) -> None:
    """Do nothing, but log what to use instead.

    Args:
        enabled: Whether to log where each operation runs; most are parts of a compiled function.
    """
    if enabled:
        _log.warning("set_log_device_placement has no effect: array.devices() says where an array is.")


def set_jit(enabled: bool | str) -> None:
    """Accept the call and do nothing: everything is compiled."""


def experimental_connect_to_cluster(
    cluster_spec_or_resolver: ClusterSpec | ClusterResolver | None, **options: object
) -> None:
    """Accept the call and do nothing: tasks find each other when the strategy is built."""


def initialize_tpu_system(cluster_resolver: ClusterResolver | None = None) -> None:
    """Accept the call and do nothing: JAX sets up a host's TPUs when it looks for devices."""


def shutdown_tpu_system(cluster_resolver: ClusterResolver | None = None) -> None:
    """Accept the call and do nothing: JAX releases a host's TPUs when the process ends."""


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: object = None) -> bool:
    """Return whether there is a GPU; the arguments are unused."""
    return bool(list_physical_devices("GPU"))


def gpu_device_name() -> str:
    """Return the name of the first GPU, or an empty text."""
    return "/device:GPU:0" if is_gpu_available() else ""


def is_built_with_cuda() -> bool:
    """Return whether JAX can use GPUs, which is whether there is one."""
    return is_gpu_available()


def get_memory_growth(device: PhysicalDevice) -> bool:
    """Return whether JAX takes memory as it is needed: what `set_memory_growth` tells how to set."""
    return os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "").lower() in ("false", "0")


def enable_op_determinism() -> None:
    """Do nothing on CPUs, where steps give the same results each time; say what to set for GPUs."""
    _log.info("For GPUs set XLA_FLAGS=--xla_gpu_deterministic_ops=true; on CPUs steps are deterministic.")


def set_experimental_options(options: Mapping[str, object]) -> None:
    """Keep options of TensorFlow's optimizer of graphs, without effect: XLA compiles everything."""
    if options.get("debug_stripper"):
        _log.warning("debug_stripper has no effect: functions keep tf.print, assertions and other checks.")
    _optimizer_options.update(options)


def get_experimental_options() -> dict[str, object]:
    """Return the options of TensorFlow's optimizer of graphs, as they have been set."""
    return dict(_optimizer_options)


def set_threads(num_threads: int) -> None:
    """Do nothing: XLA decides; ``muster run`` gives each task its share of the cores."""
