"""Start JAX's distributed runtime for workers whose devices need XLA's collectives.

Its coordination service, on a port of the chief, believes everyone who calls, and a stray call aborts the
job. Gloo listens on all workers. So neither is started where muster adds the workers' gradients by itself.
"""

import contextlib
import ctypes
import faulthandler
import importlib.util
import os
import pkgutil
import re
import signal
import time
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import jax

from muster.distribute.workers._workers import Workers
from muster.net import free_address

# How long the roster may take to end the process with a reason, in seconds.
_HOLD_SECS = 3.0


def _aborted(number: int) -> None:
    """Run on the thread that aborts, once it gets the interpreter's lock."""
    with contextlib.suppress(AttributeError, OSError, RuntimeError, ValueError):  # no standard error
        faulthandler.dump_traceback()
    time.sleep(_HOLD_SECS)
    _set_handler(signal.SIGABRT, 0)
    os.kill(os.getpid(), signal.SIGABRT)


_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)(_aborted)
_set_handler = ctypes.CDLL(None).signal
_set_handler.argtypes = [ctypes.c_int, ctypes.c_void_p]
_set_handler.restype = ctypes.c_void_p


def hold_aborts() -> None:
    """Let an abort of this process show where its threads are, and wait for a moment.

    When the chief is gone, JAX's coordination aborts the other processes at once, from a thread of its own.
    In one that has held the interpreter's lock meanwhile, no Python code could say that the others have given
    it up. The handler needs the lock, and so waits for it; then the roster reads the news, and ends the
    process with a reason. After an abort of another kind the process ends as it would have, three seconds
    later. If the handler is stuck, with the lock, the other workers notice that this one stands still.
    """
    _set_handler(signal.SIGABRT, ctypes.cast(_HANDLER, ctypes.c_void_p))


# JAX uses CUDA where one of these exists.
_NVIDIA = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg")


def connect_runtimes(workers: Workers, chief: str) -> None:
    """Start JAX's runtime over all workers if one of them may need it and the program has not started it.

    Args:
        workers: The workers; all call this.
        chief: The chief's address.

    Raises:
        MismatchError: The programs of some workers have started it.
    """
    started = jax.distributed.is_initialized()
    workers.require_equal("calls of jax.distributed.initialize", [f"{int(started)} of them"])
    if not started:
        if not any(workers.all_gather_object(_may_need_xla())):
            return
        address, interface = free_address(chief) if workers.is_chief else ("", "")
        # The service would take SIGTERM away from Python's handlers, and nothing uses it.
        jax.config.update("jax_enable_preemption_service", False)
        jax.distributed.initialize(
            coordinator_address=workers.all_gather_object(address)[0],
            coordinator_bind_address=interface,
            num_processes=workers.size,
            process_id=workers.rank,
            cluster_detection_method="deactivate",
        )
    hold_aborts()


def check_runtimes(workers: Workers) -> bool:
    """Return whether JAX sees the devices of all workers, now that it has found those of this process.

    Raises:
        ValueError: The program has started JAX's runtime with other numbers than the cluster's.
        RuntimeError: JAX has found devices that need the runtime, which was not started.
    """
    if jax.distributed.is_initialized():
        found, wanted = (jax.process_index(), jax.process_count()), (workers.rank, workers.size)
        if found != wanted:
            raise ValueError(
                f"jax.distributed.initialize was called as process {found[0]} of {found[1]}, in "
                f"{workers.names[workers.rank]}. Give it process_id={wanted[0]} and "
                f"num_processes={wanted[1]}, or leave the call out."
            )
        return True
    devices = jax.local_devices()
    if len(devices) > 1 or devices[0].platform != "cpu":
        raise RuntimeError(
            f"JAX has found {len(devices)} devices here, the first of which is {devices[0]}, and "
            "only jax.distributed.initialize joins them with those of other workers. Call it before the "
            "strategy is built, with the number of the worker as its process_id."
        )
    return False


def _may_need_xla() -> bool:
    """Return whether JAX may find other devices than one CPU. Asking JAX would start its local runtime."""
    config: Any = jax.config
    if (platforms := config.jax_platforms) and platforms != "cpu":
        return True
    return _cpu_devices(config) > 1 or (not platforms and _has_accelerators())


def _cpu_devices(config: Any) -> int:
    configured: int = config.jax_num_cpu_devices
    flag = re.findall(r"--xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
    return configured if configured >= 0 else int(flag[-1]) if flag else 1


def _has_accelerators() -> bool:
    """Return whether a JAX plugin for an accelerator is installed, and may find a device."""
    package = importlib.util.find_spec("jax_plugins")
    places = package.submodule_search_locations if package else []
    plugins = {module.name for module in pkgutil.iter_modules(places)}
    plugins |= {plugin.value for plugin in entry_points(group="jax_plugins")}
    others = [plugin for plugin in plugins if "cuda" not in plugin]
    if others or importlib.util.find_spec("libtpu"):
        return True
    return bool(plugins) and any(Path(device).exists() for device in _NVIDIA)
