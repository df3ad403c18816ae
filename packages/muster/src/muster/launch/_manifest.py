"""The description of a job that Kubernetes and Slurm manifests are made from."""

import collections
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
        name: The name of the job, a part of its host names.
        shape: The tasks. ``devices_per_worker`` is the number of GPUs of each training task.
        command: The program and its arguments, on each host or in each container.
        restarts: The number of restarts after failures.
        image: The container image; Slurm has none.
        port: The port that tasks listen at.
        cpus: The number of cores of each task; None takes the cluster's default.
        volume: A PersistentVolumeClaim and its mount path: all tasks must see the same model directory.
        tasks_per_node: The largest number of tasks on a host under Slurm.
        namespace: The Kubernetes namespace; empty: that of kubectl's context.
        workdir: The working directory of the program; empty: the image's, or where sbatch was called.
        memory: The memory of each task, as Kubernetes writes it, such as ``8Gi``; empty: the default.
        shm: The size of ``/dev/shm`` in containers, such as ``1Gi``; empty: the default, 64 MiB.
        env: Further environment variables of the tasks.
        tls_secret: The Kubernetes Secret of ``ca.crt``, ``tls.crt`` and ``tls.key``; empty: no TLS.

    Raises:
        ClusterError: The name cannot be part of a host name.
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
    namespace: str = ""
    workdir: str = ""
    memory: str = ""
    shm: str = ""
    env: tuple[tuple[str, str], ...] = ()
    tls_secret: str = ""

    def __post_init__(self) -> None:
        if not _LABEL.fullmatch(self.name) or len(self.name) > _LONGEST_NAME:
            raise ClusterError(
                f"The name of a job becomes part of its hosts' names, and {self.name!r} cannot. Use at most "
                f"{_LONGEST_NAME} small letters, digits and hyphens, a letter first and no hyphen last."
            )

    @property
    def replicas(self) -> dict[str, int]:
        """The number of tasks of each type, training tasks first."""
        return dict(collections.Counter(task.type for task in self.shape.tasks))
