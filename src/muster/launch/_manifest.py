"""A job as a cluster manager is told of it: what Kubernetes and Slurm manifests have in common."""

import dataclasses
import re

from muster._errors import ClusterError
from muster.launch._plan import JobShape

_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_LONGEST_NAME = 40  # names of hosts, at most 63 characters, are made from it


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """A job for a cluster manager.

    Args:
        name: What the job is called; names of hosts are made from it.
        shape: Which tasks there are. ``devices_per_worker`` is the number of GPUs of each training task.
        command: The program and its arguments, as they are called on each host or in each container.
        restarts: How often to start again after a failure.
        image: The container image; Slurm has none.
        port: Where tasks listen.
        cpus: How many cores each task asks for; None: the cluster's default.
        volume: A PersistentVolumeClaim and where to mount it: a model directory must be the same for all.
        tasks_per_node: How many tasks may share a host under Slurm.

    Raises:
        ClusterError: The name cannot be that of a host.
    """

    name: str
    shape: JobShape
    command: tuple[str, ...]
    restarts: int = 3
    image: str = ""
    port: int = 2222
    cpus: int | None = None
    volume: tuple[str, str] | None = None
    tasks_per_node: int = 1

    def __post_init__(self) -> None:
        if not _LABEL.fullmatch(self.name) or len(self.name) > _LONGEST_NAME:
            raise ClusterError(
                f"The name of a job becomes part of its hosts' names, and {self.name!r} cannot. Use at most "
                f"{_LONGEST_NAME} small letters, digits and hyphens, a letter first and no hyphen last."
            )

    @property
    def replicas(self) -> dict[str, int]:
        """How many tasks there are of each type, those that train first."""
        counts: dict[str, int] = {}
        for task in self.shape.tasks:
            counts[task.type] = counts.get(task.type, 0) + 1
        return counts
