"""A job as it is described to a cluster manager, by the options of `muster manifest` and `muster run`."""

import argparse
import collections
import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muster._errors import ClusterError
from muster.cluster import TaskType
from muster.launch._plan import JobShape

_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
_LONGEST_NAME = 40  # names of hosts, at most 63 characters, are made from it
# What a manifest says of a pod by itself, so that a file of the user's cannot.
_OWN = {"restartPolicy", "subdomain", "hostname"}
_OWN_OF_CONTAINER = {"name", "image", "command", "args", "ports", "workingDir"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class JobManifest:
    """A job for a cluster manager.

    Args:
        name: The name of the job, a part of its host names.
        shape: The tasks. ``devices_per_worker`` is the number of GPUs of each training task.
        command: The program and its arguments, on each host or in each container.
        restarts: The number of restarts after failures.
        image: The container image; empty for none, under Slurm.
        port: The port that tasks listen at.
        cpus: The number of cores of each task; None takes the cluster's default.
        volumes: PersistentVolumeClaims and their mount paths: all tasks must see the same model directory.
        tasks_per_node: The largest number of tasks on a host under Slurm.
        namespace: The Kubernetes namespace; empty: that of kubectl's context.
        workdir: The working directory of the program; empty: the image's, or where sbatch was called.
        memory: The memory of each task, as Kubernetes writes it, such as ``8Gi``; empty: the default.
        shm: The size of ``/dev/shm`` in containers, such as ``1Gi``; empty: the default, 64 MiB.
        env: Further environment variables of the tasks.
        sbatch: Further options of ``sbatch``, such as ``--account=me``; Slurm only. Those of one type of
            tasks alone begin with it, such as ``ps:--mem=64G``.
        mounts: Folders of the hosts in the container of ``image``, such as ``/data:/data:ro``; Slurm only.
        setup: Lines of shell that the batch script begins with, such as ``module load cuda``; Slurm only.
        tls_secret: The Kubernetes Secret of ``ca.crt``, ``tls.crt`` and ``tls.key``; empty: no TLS.
        queue: The LocalQueue of Kueue that admits the job; empty: none.
        grace_secs: How long a pod may take to end when it is told to, in seconds, before it is killed.
        runtime: A ClusterTrainingRuntime of Kubeflow Trainer that is there, for a TrainJob of workers alone;
            empty for one of the job's own.
        pod: Further fields of the pods' specs, such as ``tolerations``; those of ``containers`` are for the
            task's container.

    Raises:
        ClusterError: The name cannot be part of a host name, or ``pod`` has what the manifest says itself.
    """

    name: str
    shape: JobShape
    command: tuple[str, ...]
    restarts: int = 3
    image: str = ""
    port: int = 2222
    cpus: int | None = None
    volumes: tuple[tuple[str, str], ...] = ()
    tasks_per_node: int = 1
    namespace: str = ""
    workdir: str = ""
    memory: str = ""
    shm: str = ""
    env: tuple[tuple[str, str], ...] = ()
    tls_secret: str = ""
    sbatch: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    queue: str = ""
    grace_secs: int = 60
    runtime: str = ""
    pod: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _LABEL.fullmatch(self.name) or len(self.name) > _LONGEST_NAME:
            raise ClusterError(
                f"The name of a job becomes part of its hosts' names, and {self.name!r} cannot. Use at most "
                f"{_LONGEST_NAME} small letters, digits and hyphens, a letter first and no hyphen last."
            )
        if self.runtime:
            self._check_runtime()
        if self.mounts and not self.image:
            raise ClusterError("--mount is for containers: name theirs with --image.")
        if unknown := sorted({kind for kind, _ in self.sbatch_of_types} - {*self.replicas}):
            raise ClusterError(
                f"There are options of sbatch for {', '.join(unknown)}, and the job's tasks are of the types "
                f"{', '.join(self.replicas)}."
            )
        containers = self.pod.get("containers", [{}])
        if not isinstance(containers, list) or len(containers) != 1 or not isinstance(containers[0], dict):
            raise ClusterError(
                "A file for --pod may have one entry in containers, whose fields are added to those of the "
                f"task's container, given: {containers!r}."
            )
        if own := sorted((_OWN & set(self.pod)) | (_OWN_OF_CONTAINER & set(containers[0]))):
            raise ClusterError(
                f"A file for --pod cannot say {', '.join(own)}: the manifest does, by the other options."
            )

    def _check_runtime(self) -> None:
        if {*self.replicas} != {TaskType.WORKER} or self.shape.is_elastic:
            raise ClusterError(
                f"The runtime {self.runtime} runs tasks of one type, given: {', '.join(self.replicas)}. Ask "
                "for a number of --workers alone, or leave --runtime out."
            )
        fixed: dict[str, object] = {"--volume": self.volumes, "--shm": self.shm, "--pod": self.pod}
        fixed |= {"--tls-secret": self.tls_secret, "--workdir": self.workdir}
        if given := [option for option, value in fixed.items() if value]:
            raise ClusterError(
                f"The runtime {self.runtime} says itself what its pods are like, given: {', '.join(given)}. "
                "Leave --runtime out for one of the job's own."
            )

    @property
    def sbatch_of_types(self) -> list[tuple[str, str]]:
        """The options of ``sbatch`` that are for one type of tasks: the type, and the option."""
        pairs = [each.partition(":") for each in self.sbatch if not each.startswith("-")]
        return [(kind, option) for kind, _, option in pairs]

    @property
    def replicas(self) -> dict[str, int]:
        """The number of tasks of each type, training tasks first."""
        return dict(collections.Counter(task.type for task in self.shape.tasks))


def manifest_of(args: argparse.Namespace, shape: JobShape, program: tuple[str, ...]) -> JobManifest:
    """Return the description of a job that options ask for: those of `muster manifest`, or of `muster run`.

    Args:
        args: The options, as parsed. Those that a kind of manifest lacks have their defaults.
        shape: The tasks.
        program: The words after the interpreter.

    Raises:
        ClusterError: They make no sense.
    """
    grace = getattr(args, "grace_secs", None)
    return JobManifest(
        name=args.name,
        shape=shape,
        command=(args.python or "python", *program),
        restarts=args.restarts,
        cpus=args.cpus,
        image=getattr(args, "image", None) or "",
        volumes=tuple(getattr(args, "volume", ())),
        tasks_per_node=getattr(args, "tasks_per_node", None) or 1,
        namespace=getattr(args, "namespace", ""),
        workdir=args.workdir,
        memory=args.memory or "",
        shm=getattr(args, "shm", None) or "",
        env=tuple(args.env),
        tls_secret=getattr(args, "tls_secret", ""),
        sbatch=tuple(getattr(args, "sbatch", ())),
        mounts=tuple(getattr(args, "mount", ())),
        setup=tuple(getattr(args, "setup", ())),
        queue=getattr(args, "queue", ""),
        grace_secs=JobManifest.grace_secs if grace is None else int(grace),
        runtime=getattr(args, "runtime", ""),
        pod=_read_pod(args.pod) if getattr(args, "pod", None) else {},
    )


def _read_pod(path: Path) -> dict[str, Any]:
    """Read the fields of a pod's spec from a file of YAML.

    Raises:
        ClusterError: There is no such file, or something else in it.
    """
    # Imported late: the help of the command must not wait for the YAML library.
    import yaml

    try:
        fields = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
        raise ClusterError(f"The file {path} for --pod cannot be read: {exc}") from exc
    if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
        raise ClusterError(
            f"The file {path} for --pod must have fields of a pod's spec, such as `tolerations: […]`, given: "
            f"{fields!r}"
        )
    return fields
