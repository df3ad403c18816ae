"""Names of ``tf.config`` for devices: their kind, their memory, and how precisely they multiply.

Source: tensorflow/python/framework/config.py.
"""

import jax

from muster.extend import device_of
from muster_tensorflow.programs.v2.config import PhysicalDevice

_TF32, _FLOAT32 = "tensorfloat32", "float32"


def get_memory_info(device: str) -> dict[str, int]:
    """Return how many bytes of a device's memory are in use, ``current`` and at most, ``peak``.

    Args:
        device: Such as ``"GPU:0"``.

    Raises:
        ValueError: There is no such device, or JAX does not know it, as of CPUs.
    """
    stats = device_of(f"/{device.lstrip('/')}").memory_stats()
    if not stats:
        raise ValueError(
            f"Allocator stats not available for device {device!r}: JAX counts those of GPUs and TPUs."
        )
    return {"current": stats["bytes_in_use"], "peak": stats["peak_bytes_in_use"]}


def get_memory_usage(device: str) -> int:
    """Return how many bytes of a device's memory are in use.

    Raises:
        ValueError: As `get_memory_info`.
    """
    return get_memory_info(device)["current"]


def get_device_details(device: PhysicalDevice) -> dict[str, object]:
    """Return the ``device_name`` of a GPU and its ``compute_capability``, of which CPUs have none."""
    kind = device.device_type
    if kind == "CPU":
        return {}
    found = jax.local_devices(backend=kind.lower())[int(device.name.rpartition(":")[2])]
    details: dict[str, object] = {"device_name": found.device_kind}
    if capability := getattr(found, "compute_capability", None):
        details["compute_capability"] = tuple(map(int, str(capability).split(".")))
    return details


def enable_tensor_float_32_execution(enabled: bool) -> None:
    """Let GPUs multiply float32 with fewer bits, or not."""
    jax.config.update("jax_default_matmul_precision", _TF32 if enabled else _FLOAT32)


def tensor_float_32_execution_enabled() -> bool:
    """Return whether GPUs may multiply float32 with fewer bits, as they do by default."""
    return jax.config.jax_default_matmul_precision not in (_FLOAT32, "highest")  # type: ignore[attr-defined]


def get_soft_device_placement() -> bool:
    """Return whether ``tf.device`` lets the CPU compute where there is no GPU: it does."""
    return True


def get_log_device_placement() -> bool:
    """Return whether each operation's device is logged: it is not."""
    return False


def get_threads() -> int:
    """Return 0: XLA decides how many threads there are."""
    return 0
