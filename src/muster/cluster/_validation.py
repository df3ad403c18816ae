"""Check that strategies can train with a cluster."""

from muster._errors import ClusterError
from muster.cluster._cluster_spec import Addresses, ClusterSpec
from muster.cluster._task import TaskType

_ALLOWED = (TaskType.CHIEF.value, TaskType.WORKER.value, TaskType.EVALUATOR.value, TaskType.PS.value, None)


def validate_cluster_spec(
    cluster_spec: ClusterSpec | dict[str, Addresses],
    task_type: str | None = None,
    task_id: int | None = None,
) -> None:
    """Check that a strategy can train with a cluster, and that the cluster has the given task.

    Its jobs are ``chief``, ``worker``, ``ps`` and ``evaluator``, with at most one chief and one evaluator. An
    evaluator may be outside of the cluster. Unlike TensorFlow, this refuses a negative index, and an
    index that a sparse job does not have.

    Source: tensorflow/python/distribute/multi_worker_util.py, ``_validate_cluster_spec``.

    Args:
        cluster_spec: All tasks.
        task_type: The task's type; None checks only the cluster.
        task_id: Its index among the tasks of that type.

    Raises:
        ClusterTypeError: ``cluster_spec`` describes no cluster.
        ClusterError: The cluster has other jobs, or does not have the task.
    """
    cluster = ClusterSpec(cluster_spec)
    if not set(cluster.jobs) <= set(_ALLOWED):
        raise ClusterError(
            f"Disallowed task type found in cluster spec. Allowed types are {_ALLOWED} and the cluster spec "
            f"is {cluster}."
        )
    for job in (TaskType.CHIEF, TaskType.EVALUATOR):
        if job in cluster.jobs and cluster.num_tasks(job) > 1:
            raise ClusterError(f"There must be at most one '{job}' job. Given: {cluster}")
    if task_type not in _ALLOWED:
        raise ClusterError(f"Unrecognized task_type: {task_type}, valid task types are: {_ALLOWED}")
    if task_type is None:
        return
    if task_type not in cluster.jobs:
        if task_type == TaskType.EVALUATOR:
            return
        raise ClusterError(f"`task_type` '{task_type}' not found in cluster_spec. Given: {cluster}")
    indices = cluster.task_indices(task_type)
    if task_id not in indices:
        beyond = task_id is not None and task_id > max(indices, default=-1)
        wrong = f"exceeds the maximum id of {task_type}" if beyond else f"is not an id of {task_type}"
        raise ClusterError(f"The `task_id` {task_id} {wrong}. Its ids are {indices}.")
