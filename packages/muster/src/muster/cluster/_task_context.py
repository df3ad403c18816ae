"""The context of a task: its role in the job, and the size of the job."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from muster._errors import ClusterError
from muster.cluster._cluster_spec import ClusterSpec, TaskType
from muster.cluster._tf_config import TFConfig

_HINT = "\n\nNote that these values may be coming from the TF_CONFIG environment variable."


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskContext:
    """The role of one task, and the number of tasks of each role.

    Has the fields of TensorFlow's ``RunConfig`` and ``_WorkerContext``
    (tensorflow/python/distribute/distribute_coordinator.py); elsewhere these are rank and world size.

    Args:
        task_type: The type of this task.
        task_id: Its index among the tasks of that type.
        is_chief: Whether it writes checkpoints and summaries.
        cluster_spec: All tasks; empty for a job of one process, and for an evaluator, which is outside.
        num_worker_replicas: The number of tasks that train, including the chief.
        num_ps_replicas: The number of parameter servers.
        global_id_in_cluster: Its rank among all tasks: the chief 0, then the other jobs by name, parameter
            servers last. None for an evaluator.
        master: This task's address with its protocol; empty in a job of one process.
        evaluation_master: The address to evaluate at; empty unless ``TF_CONFIG`` has one.
        service: Settings of a cluster manager, in its own format.
    """

    task_type: str
    task_id: int
    is_chief: bool
    cluster_spec: ClusterSpec = ClusterSpec({})
    num_worker_replicas: int = 0
    num_ps_replicas: int = 0
    global_id_in_cluster: int | None = None
    master: str = ""
    evaluation_master: str = ""
    service: Mapping[str, Any] | None = None


def task_context(config: TFConfig, *, chief_required: bool = True) -> TaskContext:
    """Check ``TF_CONFIG``, and return the context of its task.

    Follows ``RunConfig._init_distributed_setting_from_environment_var``
    (tensorflow_estimator/python/estimator/run_config.py), but for an empty ``session_master`` that is null,
    and for strategies: there TensorFlow calls every task worker 0 and chief, and checks nothing.

    Args:
        config: The parsed ``TF_CONFIG``.
        chief_required: Whether a cluster without a chief is an error. If not, worker 0 is the chief.

    Raises:
        ClusterError: The task is missing, or not one of the cluster, or there is not exactly one chief.
    """
    cluster = config.cluster
    if not cluster:
        return _local(config)
    chief = _check(config, cluster, chief_required)
    task_type, task_id = config.task.type, config.task.index
    if task_type == TaskType.EVALUATOR:
        return TaskContext(
            task_type=task_type,
            task_id=task_id,
            is_chief=False,
            evaluation_master=config.eval_session_master or "",
            service=config.service,
        )
    jobs = {job: cluster.num_tasks(job) for job in cluster.jobs}
    master = config.session_master
    if master is None:
        master = "" if sum(jobs.values()) == 1 else f"grpc://{cluster.task_address(task_type, task_id)}"
    return TaskContext(
        task_type=task_type,
        task_id=task_id,
        is_chief=(task_type, task_id) == (chief, 0),
        cluster_spec=cluster,
        num_worker_replicas=jobs.get(TaskType.WORKER, 0) + (chief != TaskType.WORKER),
        num_ps_replicas=jobs.get(TaskType.PS, 0),
        global_id_in_cluster=_global_id(cluster, chief, task_type, task_id),
        master=master,
        service=config.service,
    )


def _local(config: TFConfig) -> TaskContext:
    """Return the context of the only process of a job."""
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
    return TaskContext(
        task_type=TaskType.WORKER.value,
        task_id=0,
        is_chief=True,
        num_worker_replicas=1,
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
    """Return a task's rank among all: the chief, the other jobs by name, parameter servers last."""
    others = sorted(job for job in cluster.jobs if job not in (chief, TaskType.PS))
    ordered = [chief, *others, TaskType.PS]
    before = [job for job in ordered[: ordered.index(task_type)] if job in cluster.jobs]
    return task_id + sum(len(cluster.job_tasks(job)) for job in before)
