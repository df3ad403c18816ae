"""Identify a job by its training tasks, an id, and the versions of its software."""

import hashlib
import importlib.metadata
import json
import platform

from muster._version import __version__
from muster.cluster._cluster_spec import ClusterSpec, Task, TaskType

_TRAINING = (TaskType.CHIEF, TaskType.MASTER, TaskType.WORKER)


def training_tasks(cluster: ClusterSpec) -> tuple[Task, ...]:
    """Return the tasks that train together: the chief first, then the workers."""
    return tuple(
        Task(job.value, index)
        for job in _TRAINING
        if job in cluster.jobs
        for index in cluster.task_indices(job)
    )


def derive_job_id(cluster: ClusterSpec) -> str:
    """Return an id that depends only on the cluster: the job's id if it was started by hand."""
    addresses = {str(task): cluster.task_address(task.type, task.index) for task in training_tasks(cluster)}
    return hashlib.sha256(json.dumps(addresses, sort_keys=True).encode()).hexdigest()[:12]


def installed_versions() -> dict[str, str]:
    """Return the versions that must be the same in all tasks, without importing the packages."""
    python = ".".join(platform.python_version_tuple()[:2])
    versions = {"muster": __version__, "python": python}
    for name in ("jax", "jaxlib", "keras"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
