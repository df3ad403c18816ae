"""The cluster resolver for Slurm."""

import dataclasses
import os
from collections.abc import Mapping

from muster._errors import ClusterEnvironmentError, ClusterError
from muster.cluster._cluster_spec import ClusterSpec, check_index
from muster.cluster.resolvers._slurm_lists import expand_hostlist, expand_tasks_per_node
from muster.cluster.resolvers._task_resolver import TaskResolver

VISIBLE = "CUDA_VISIBLE_DEVICES"
# The values that mean "no device": Slurm's, and CUDA's.
_NONE = ("", "NoDevFiles", "-1")


@dataclasses.dataclass(frozen=True)
class Gpus:
    """The GPUs that a task of a step sees.

    Args:
        ids: Their names in ``CUDA_VISIBLE_DEVICES``.
        per_task: The number of GPUs that a task uses.
        exclusive: Whether no other task of the host sees them, so that there is nothing to divide.
    """

    ids: tuple[str, ...]
    per_task: int
    exclusive: bool

    def of_task(self, local: int) -> str | None:
        """Return the value of ``CUDA_VISIBLE_DEVICES`` for a task; None leaves the variable as it is.

        Args:
            local: The task's number on its host.
        """
        if self.exclusive:
            return None
        return ",".join(self.ids[local * self.per_task : (local + 1) * self.per_task])


def find_gpus(environ: Mapping[str, str], tasks: int, per_node: int | None, per_task: int | None) -> Gpus:
    """Find the GPUs of this host that its tasks divide, and how many each task gets.

    Slurm has divided them already if this task sees fewer than its step has on the host, or fewer than there
    are tasks.

    Args:
        environ: The environment of this task.
        tasks: The largest number of tasks on a host.
        per_node: The number of GPUs of a host; None: as many as this task sees.
        per_task: The number of GPUs of a task; None: equal parts.

    Raises:
        ClusterEnvironmentError: There are fewer than requested.
    """
    of_step = [each for each in environ.get("SLURM_STEP_GPUS", "").split(",") if each]
    seen = [each for each in environ.get(VISIBLE, "").split(",") if each not in _NONE]
    exclusive = VISIBLE in environ and len(seen) < (len(of_step) or (tasks if per_node is None else 0))
    if per_node is not None and len(seen) < per_node and not exclusive:
        seen = [str(number) for number in range(per_node)]
    sharers = 1 if exclusive else tasks
    have = len(seen) if exclusive or per_node is None else per_node
    per_task = have // sharers if per_task is None else per_task
    if per_task * sharers > have:
        raise ClusterEnvironmentError(
            f"Requested more GPUs per node than available. Each of {sharers} tasks that share {have} GPUs "
            f"is to have {per_task}. Give gpus_per_node and gpus_per_task that fit."
        )
    return Gpus(tuple(seen), per_task, exclusive or not seen)


class SlurmClusterResolver(TaskResolver):
    """The tasks of a Slurm step, which ``srun`` started together, each with its host and its port.

    Jobs get consecutive ranks in the order of their names, and so do hosts in the order in which Slurm lists
    them: start the step with ``--distribution=block``.

    Follows ``tf.distribute.cluster_resolver.SlurmClusterResolver``
    (tensorflow/python/distribute/cluster_resolver/slurm_cluster_resolver.py), but reads the environment once,
    when built, so that mistakes are errors there and this task is known at once; keeps the order of
    hosts instead of sorting them as text, which puts n10 before n2; and runs on hosts without GPUs, too.

    Args:
        jobs: The number of tasks of each job, by its name. None: all tasks are workers.
        port_base: The port of the first task of a host; the others of that host have the next ones.
        gpus_per_node: The number of GPUs of each host for the step. None: as many as this task may use.
        gpus_per_task: The number of GPUs of each task. None: they are divided evenly.
        tasks_per_node: The number of tasks of each host, by its name, or one number for all hosts, or a text
            in Slurm's notation, such as ``2(x3),1``. None: Slurm's own, in ``SLURM_STEP_TASKS_PER_NODE``.
        auto_set_gpu: Whether `cluster_spec` sets ``CUDA_VISIBLE_DEVICES`` to the share of this task. JAX
            reads it when it first looks for devices. Nothing is set where Slurm has divided them already
            (``--gpus-per-task``).
        rpc_layer: The protocol in the address of a master.

    Raises:
        ClusterEnvironmentError: This is no Slurm step, or it has fewer tasks or GPUs than requested.
        ClusterError: Slurm's variables have another form, or it has placed tasks otherwise.
    """

    def __init__(
        self,
        jobs: Mapping[str, int] | None = None,
        port_base: int = 8888,
        gpus_per_node: int | None = None,
        gpus_per_task: int | None = None,
        tasks_per_node: Mapping[str, int] | int | str | None = None,
        auto_set_gpu: bool = True,
        rpc_layer: str | None = "grpc",
    ) -> None:
        environ = os.environ
        rank = check_index(_required(environ, "SLURM_PROCID"), "this task in SLURM_PROCID")
        hosts = _tasks_of_hosts(environ, tasks_per_node)
        jobs = {"worker": _number(environ, "SLURM_STEP_NUM_TASKS")} if jobs is None else jobs
        asked, assigned = sum(jobs.values()), sum(hosts.values())
        if asked != assigned:
            raise ClusterEnvironmentError(
                f"Requested {asked} tasks but only {assigned} were assigned. Asked for: {dict(jobs)}; "
                f"the hosts have: {hosts}."
            )
        places = [(host, local) for host, count in hosts.items() for local in range(count)]
        if rank not in range(len(places)):
            raise ClusterError(f"SLURM_PROCID is {rank}, which is none of the step's {len(places)} tasks.")
        host, local = places[rank]
        _check_placed(environ, rank, host)

        addresses = iter(f"{host}:{port_base + local}" for host, local in places)
        cluster = {job: [next(addresses) for _ in range(jobs[job])] for job in sorted(jobs)}
        ranked = [(job, index) for job, tasks in cluster.items() for index in range(len(tasks))]
        super().__init__(ClusterSpec(cluster), *ranked[rank], rpc_layer)
        gpus = find_gpus(environ, max(hosts.values()), gpus_per_node, gpus_per_task)
        self._gpus = gpus.per_task
        self._visible = gpus.of_task(local) if auto_set_gpu else None

    def cluster_spec(self) -> ClusterSpec:
        """Return the addresses of all tasks, and select the GPUs of this one if `auto_set_gpu` is set."""
        if self._visible is not None:
            # It works only this early and in this process: the one variable that muster sets for itself.
            os.environ[VISIBLE] = self._visible
        return self._cluster

    def get_task_info(self) -> tuple[str | None, int | None]:
        """Return the type and the index of this task."""
        return self.task_type, self.task_id

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None
    ) -> Mapping[str, int] | int:
        return {"GPU": self._gpus}


def _required(environ: Mapping[str, str], name: str) -> str:
    if name not in environ:
        raise ClusterEnvironmentError(f"{name} not found in environment. Not running inside a SLURM step?")
    return environ[name]


def _number(environ: Mapping[str, str], name: str) -> int:
    return check_index(_required(environ, name), name)


def _tasks_of_hosts(
    environ: Mapping[str, str], tasks_per_node: Mapping[str, int] | int | str | None
) -> dict[str, int]:
    """Return the number of tasks of each host, in the order of ranks."""
    if isinstance(tasks_per_node, Mapping):
        return dict(tasks_per_node)
    hosts = expand_hostlist(_required(environ, "SLURM_STEP_NODELIST"))
    if tasks_per_node is None:
        tasks_per_node = _required(environ, "SLURM_STEP_TASKS_PER_NODE")
    if not isinstance(tasks_per_node, str):
        return dict.fromkeys(hosts, tasks_per_node)
    counts = expand_tasks_per_node(tasks_per_node)
    return dict(zip(hosts, counts, strict=False))  # the sum is compared with the number requested


def _check_placed(environ: Mapping[str, str], rank: int, host: str) -> None:
    """Raise ClusterError if Slurm has placed this task on another host, where no other task would find it."""
    actual = environ.get("SLURMD_NODENAME", host)
    if actual != host:
        raise ClusterError(
            f"Task {rank} of the step runs on {actual!r}; with tasks given to hosts in blocks it would run "
            f"on {host!r}. Start the step with srun --distribution=block."
        )
