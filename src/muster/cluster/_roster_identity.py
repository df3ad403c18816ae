"""What makes the tasks of one job one job: who trains, its id, its versions, its program."""

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping
from typing import Any

from muster._version import __version__
from muster.cluster._cluster_spec import ClusterSpec
from muster.cluster._task import Task, TaskType

_MAX_SHOWN = 500  # of a value in a message, in characters
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
    """Return an id on which all tasks agree that have the same cluster: that of a job started by hand."""
    addresses = {str(task): cluster.task_address(task.type, task.index) for task in training_tasks(cluster)}
    return hashlib.sha256(json.dumps(addresses, sort_keys=True).encode()).hexdigest()[:12]


def installed_versions() -> dict[str, str]:
    """Return the versions that must be the same in all tasks, without importing what they are of."""
    python = ".".join(platform.python_version_tuple()[:2])
    versions = {"muster": __version__, "python": python}
    for name in ("jax", "jaxlib", "keras"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def first_difference(ours: Any, theirs: Any, where: str = "") -> tuple[str, str, str] | None:
    """Return where two values of JSON first differ, and what each has there."""
    if type(ours) is type(theirs) is dict:
        for key in dict.fromkeys([*ours, *theirs]):
            place = f"{where}[{key!r}]"
            if key not in ours or key not in theirs:
                return place, _shown(ours, key), _shown(theirs, key)
            if (found := first_difference(ours[key], theirs[key], place)) is not None:
                return found
        return None
    if type(ours) is type(theirs) is list and len(ours) == len(theirs):
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            if (found := first_difference(one, other, f"{where}[{index}]")) is not None:
                return found
        return None
    return None if ours == theirs else (where, _cut(ours), _cut(theirs))


def _shown(values: Mapping[str, Any], key: str) -> str:
    return _cut(values[key]) if key in values else "none"


def _cut(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}… ({len(text)} characters)"
