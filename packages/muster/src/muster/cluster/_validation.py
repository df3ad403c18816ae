"""Check that strategies can train with a cluster."""

import difflib

from muster._errors import ClusterError
from muster.cluster._cluster_spec import Addresses, ClusterSpec, Task, TaskType
from muster.cluster._tf_config import TFConfig, check_unique
from muster.net import split_address

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
    for job in cluster.jobs:
        if job not in _ALLOWED:
            meant = difflib.get_close_matches(job.lower(), _ALLOWED[:-1], 1) or [
                "chief" if job == "master" else "worker"
            ]
            raise ClusterError(
                f"Disallowed task type found in cluster spec. Allowed types are {_ALLOWED} and the cluster "
                f"spec is {cluster}. Rename {job!r}, such as to {meant[0]!r}."
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


def check_job(config: TFConfig) -> Task:
    """Return the task of this process, after checking that the tasks of the cluster can train together.

    TensorFlow checks less: what is wrong with addresses makes its jobs hang.

    Args:
        config: All tasks and which one this is; that may be absent if there is only one.

    Raises:
        ClusterError: The task is absent or not one of the cluster, a job has another name, an address is not
            host:port, two tasks share one, or this is a parameter server.
    """
    cluster = config.cluster
    tasks = [Task(job, index) for job in cluster.jobs for index in cluster.task_indices(job)]
    if len(tasks) > 1:
        validate_cluster_spec(cluster, config.task.type, config.task.index)
        for task in tasks:
            try:
                split_address(cluster.task_address(task.type, task.index))
            except ClusterError as exc:
                raise ClusterError(f"{task} has a wrong address in the cluster. {exc}") from exc
        check_unique(cluster)
    elif not cluster and config.task_index:
        raise ClusterError(
            f"This is {config.task_type} {config.task_index} of an empty cluster: each of its tasks would "
            "train by itself. Name all tasks in the cluster, or leave out the task to train in one process."
        )
    if config.task_type == TaskType.PS:
        raise ClusterError(
            f"ps {config.task_index or 0} cannot train in step with others: MultiWorkerMirroredStrategy uses "
            "no parameter servers. Leave the job 'ps' out of the cluster; or give Estimators no "
            "train_distribute, so that they train on the servers."
        )
    return Task(config.task_type or TaskType.WORKER.value, config.task_index or 0)
