"""The place of one task in its job: its role, its number, and the number of tasks of each role."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from muster._errors import ClusterError
from muster.cluster._cluster_spec import ClusterSpec
from muster.cluster._task import TaskType
from muster.cluster._tf_config import TFConfig

_HINT = "\n\nNote that these values may be coming from the TF_CONFIG environment variable."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Placement:
    """The place of one task in its job.

    Args:
        cluster_spec: All tasks; empty for a job of one process, and for an evaluator, which is outside.
        task_type: The job of this task.
        task_id: Its number in that job.
        is_chief: Whether it writes checkpoints and summaries.
        num_worker_replicas: The number of tasks that train, including the chief.
        num_ps_replicas: The number of parameter servers.
        global_id_in_cluster: Its number among all tasks: the chief 0, then the other jobs by name, parameter
            servers last. None for an evaluator.
        master: This task's address with its protocol; empty in a job of one process.
        evaluation_master: The address to evaluate at; empty unless ``TF_CONFIG`` has one.
        service: Settings of a cluster manager, in its own format.
    """

    cluster_spec: ClusterSpec
    task_type: str
    task_id: int
    is_chief: bool
    num_worker_replicas: int
    num_ps_replicas: int
    global_id_in_cluster: int | None
    master: str
    evaluation_master: str
    service: Mapping[str, Any] | None


def placement(config: TFConfig, *, chief_required: bool = True) -> Placement:
    """Return the place of a task in its job, after checking the cluster and the task.

    Follows ``RunConfig._init_distributed_setting_from_environment_var``
    (tensorflow_estimator/python/estimator/run_config.py), but for an empty ``session_master`` that is null,
    and for strategies: there TensorFlow calls every task worker 0 and chief, and checks nothing.

    Args:
        config: The parsed ``TF_CONFIG``.
        chief_required: Whether a cluster without a chief is an error. If not, worker 0 is the chief.

    Raises:
        ClusterError: The task is missing, or not one of the cluster, or there is not exactly one chief.
    """
    if not config.cluster:
        return _local(config)
    cluster = config.cluster
    chief = _check(config, cluster, chief_required)
    task_type, task_id = config.task.type, config.task.index
    if task_type == TaskType.EVALUATOR:
        return Placement(
            cluster_spec=ClusterSpec({}),
            task_type=task_type,
            task_id=task_id,
            is_chief=False,
            num_worker_replicas=0,
            num_ps_replicas=0,
            global_id_in_cluster=None,
            master="",
            evaluation_master=config.eval_session_master or "",
            service=config.service,
        )
    jobs = {job: cluster.num_tasks(job) for job in cluster.jobs}
    master = config.session_master
    if master is None:
        master = "" if sum(jobs.values()) == 1 else f"grpc://{cluster.task_address(task_type, task_id)}"
    return Placement(
        cluster_spec=cluster,
        task_type=task_type,
        task_id=task_id,
        is_chief=(task_type, task_id) == (chief, 0),
        num_worker_replicas=jobs.get(TaskType.WORKER, 0) + (chief != TaskType.WORKER),
        num_ps_replicas=jobs.get(TaskType.PS, 0),
        global_id_in_cluster=_global_id(cluster, chief, task_type, task_id),
        master=master,
        evaluation_master="",
        service=config.service,
    )


def _local(config: TFConfig) -> Placement:
    """Return the place of the only process of a job."""
    if config.task_type not in (None, TaskType.WORKER):
        raise ClusterError(
            'If "cluster" is not set in TF_CONFIG, task type must be WORKER. '
            f"Given: {config.task_type!r}. Set the cluster, or leave out the task."
        )
    if config.task_index not in (None, 0):
        raise ClusterError(
            'If "cluster" is not set in TF_CONFIG, task index must be 0. '
            f"Given: {config.task_index}. Set the cluster, or leave out the task."
        )
    return Placement(
        cluster_spec=ClusterSpec({}),
        task_type=TaskType.WORKER.value,
        task_id=0,
        is_chief=True,
        num_worker_replicas=1,
        num_ps_replicas=0,
        global_id_in_cluster=0,
        master=config.session_master or "",
        evaluation_master=config.eval_session_master or "",
        service=config.service,
    )


def _check(config: TFConfig, cluster: ClusterSpec, chief_required: bool) -> str:
    """Check the task against the cluster, and return the job whose task 0 is the chief."""
    chief = TaskType.MASTER if TaskType.MASTER in cluster.jobs else TaskType.CHIEF
    if chief == TaskType.MASTER:
        if TaskType.CHIEF in cluster.jobs:
            raise ClusterError("If `master` node exists in `cluster`, job `chief` is not supported.")
        if config.task_type == TaskType.EVALUATOR:
            raise ClusterError(
                "If `master` node exists in `cluster`, task_type `evaluator` is not supported."
            )
    chiefs = len(cluster.job_tasks(chief)) if chief in cluster.jobs else 0
    if chiefs > 1:
        raise ClusterError(f'The "cluster" in TF_CONFIG must have only one "{chief}" node. Given: {cluster}')
    if chiefs == 0 and chief_required:
        raise ClusterError(
            f'If "cluster" is set in TF_CONFIG, it must have one "{chief}" node. Given: {cluster}'
        )
    if not config.task_type:
        raise ClusterError('If "cluster" is set in TF_CONFIG, task type must be set.')
    if config.task_index is None:
        raise ClusterError('If "cluster" is set in TF_CONFIG, task index must be set.')
    if config.task_index < 0:
        raise ClusterError(f"Task index must be non-negative number. Given: {config.task_index}")
    if config.task_type != TaskType.EVALUATOR:
        if config.task_type not in cluster.jobs:
            raise ClusterError(
                f"{config.task_type} is not a valid task_type in the cluster_spec:\n{cluster}{_HINT}"
            )
        if config.task_index not in cluster.task_indices(config.task_type):
            raise ClusterError(
                f"{config.task_index} is not a valid task_id for task_type {config.task_type} "
                f"in the cluster_spec:\n{cluster}{_HINT}"
            )
    return chief if chiefs else TaskType.WORKER


def _global_id(cluster: ClusterSpec, chief: str, task_type: str, task_id: int) -> int:
    """Return a task's number among all: the chief, the other jobs by name, parameter servers last."""
    others = sorted(job for job in cluster.jobs if job not in (chief, TaskType.PS))
    ordered = [chief, *others, TaskType.PS]
    before = [job for job in ordered[: ordered.index(task_type)] if job in cluster.jobs]
    return task_id + sum(len(cluster.job_tasks(job)) for job in before)
