"""Find the cores and GPUs of this machine, without JAX, which would claim them."""

import dataclasses
import importlib.util
import os
import re
from collections.abc import Mapping
from pathlib import Path

from muster.engines._memory import available_memory

_TOPOLOGY = "/sys/devices/system/cpu/cpu{}/topology"
_GPU_PLUGINS = ("jax_cuda12_plugin", "jax_cuda13_plugin")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MachineResources:
    """The resources that tasks can share.

    Args:
        cores: The usable logical processors, grouped by physical core and sorted by socket.
        gpus: The names of the GPUs that JAX can use, in the form of ``CUDA_VISIBLE_DEVICES``.
        memory: How much memory the tasks may take, in bytes; None if that is not known.
    """

    cores: tuple[tuple[int, ...], ...]
    gpus: tuple[str, ...] = ()
    memory: int | None = None


def this_machine(environ: Mapping[str, str]) -> MachineResources:
    """Return the resources of this machine.

    Args:
        environ: The environment of the tasks; its ``CUDA_VISIBLE_DEVICES`` and ``JAX_PLATFORMS`` are obeyed.
    """
    by_place: dict[tuple[int, int], list[int]] = {}
    for core in sorted(os.sched_getaffinity(0)):
        by_place.setdefault(_place(core), []).append(core)
    return MachineResources(
        cores=tuple(tuple(cores) for _, cores in sorted(by_place.items())),
        gpus=_gpus(environ) if any(map(importlib.util.find_spec, _GPU_PLUGINS)) else (),
        memory=available_memory(),
    )


def _place(core: int) -> tuple[int, int]:
    """Return the socket and the physical core of a logical processor."""
    folder = Path(_TOPOLOGY.format(core))
    try:
        return int((folder / "physical_package_id").read_text()), int((folder / "core_id").read_text())
    except (OSError, ValueError):
        return 0, core  # not every virtual machine has it


def _gpus(environ: Mapping[str, str], devices: Path = Path("/dev")) -> tuple[str, ...]:
    platforms = environ.get("JAX_PLATFORMS", "")
    if platforms and not {"cuda", "gpu"} & set(platforms.split(",")):
        return ()
    if "CUDA_VISIBLE_DEVICES" in environ:
        names = [name.strip() for name in environ["CUDA_VISIBLE_DEVICES"].split(",")]
        # CUDA stops at the first invalid name.
        return tuple(names[: names.index("-1")] if "-1" in names else filter(None, names))
    # Only their number matters: CUDA numbers visible devices from 0.
    found = [path for path in devices.glob("nvidia[0-9]*") if re.fullmatch(r"nvidia\d+", path.name)]
    return tuple(map(str, range(len(found))))
