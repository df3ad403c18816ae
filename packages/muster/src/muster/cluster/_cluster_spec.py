"""The description of a cluster: its tasks, each a process of a job, and their addresses."""

import dataclasses
import enum
from collections.abc import Mapping, Sequence

from muster._errors import ClusterError, ClusterTypeError


class TaskType(enum.StrEnum):
    """The task types that have a role in training; a cluster may have jobs of other names, too."""

    CHIEF = "chief"
    MASTER = "master"  # the legacy chief, which also evaluates
    WORKER = "worker"
    PS = "ps"
    EVALUATOR = "evaluator"


@dataclasses.dataclass(frozen=True)
class Task:
    """One process of a job.

    Args:
        type: Its type, such as ``"worker"``: the job name in TensorFlow's ClusterSpec.
        index: Its index among the tasks of that type, from 0.
    """

    type: str
    index: int

    def __str__(self) -> str:
        return f"{self.type} {self.index}"


def check_index(value: object, owner: str) -> int:
    """Parse the index of a task.

    Args:
        value: An integer, an integral float or digits.
        owner: The task that it is the index of, in words for the message.

    Raises:
        ClusterTypeError: It is not an integer. TensorFlow truncates 1.9 to 1 and takes True for 1.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.strip().removeprefix("-").isdecimal():
        return int(value)
    raise ClusterTypeError(f"The index of {owner} must be an integer, given: {value!r}. Count from 0.")


Addresses = Sequence[str] | Mapping[int, str] | Mapping[str, str]


class ClusterSpec:
    """The tasks of a cluster: their addresses by job name, such as ``"worker"``, and index.

    Immutable. Follows ``tf.train.ClusterSpec`` (tensorflow/python/training/server_lib.py), but for
    protocol buffers, ``bytes``, and indices that are negative, fractional or duplicate: those are errors.

    Args:
        cluster: Another ClusterSpec, or the addresses of each job: a list, or a dict from index to address
            if not all tasks are known. An index may be text, as in JSON.

    Raises:
        ClusterTypeError: The argument is no such mapping, or a name or address is not text.
        ClusterError: An index is negative or duplicate.

    Example:
        ```python
        tasks = muster.cluster.ClusterSpec({"worker": ["host-a:4111", "host-b:4111"]})
        assert tasks.num_tasks("worker") == 2
        assert tasks.task_address("worker", 1) == "host-b:4111"
        ```
    """

    def __init__(self, cluster: "ClusterSpec | Mapping[str, Addresses]") -> None:
        if isinstance(cluster, ClusterSpec):
            self._jobs: dict[str, dict[int, str]] = cluster._jobs
            return
        if not isinstance(cluster, Mapping):
            raise ClusterTypeError(
                "`cluster` must be a dictionary mapping one or more job names to lists of network addresses, "
                f"or a `ClusterDef` protocol buffer; given: {cluster!r}."
            )
        self._jobs = {}
        for job, tasks in cluster.items():
            if not isinstance(job, str):
                raise ClusterTypeError(f"Job name {job!r} must be bytes or unicode; muster takes text only.")
            self._jobs[job] = _tasks(job, tasks)

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs, in the order of the argument."""
        return list(self._jobs)

    def as_dict(self) -> dict[str, list[str] | dict[int, str]]:
        """Return each job's addresses: a list, or a dict by index if the job is empty or sparse."""
        dense: dict[str, list[str] | dict[int, str]] = {}
        for job, tasks in self._jobs.items():
            complete = tasks and list(tasks) == list(range(len(tasks)))
            dense[job] = list(tasks.values()) if complete else dict(tasks)
        return dense

    def num_tasks(self, job_name: str) -> int:
        """Return the number of tasks of a job; ClusterError if there is no such job."""
        return len(self._job(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """Return the indices of a job's tasks, ascending; ClusterError if there is no such job."""
        return list(self._job(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """Return the address of one task; ClusterError if there is no such job or task."""
        tasks = self._job(job_name)
        if task_index not in tasks:
            raise ClusterError(f"No task with index {task_index!r} in job {job_name!r}")
        return tasks[task_index]

    def job_tasks(self, job_name: str) -> list[str | None]:
        """Return a list of the addresses of a job's tasks, with None where a sparse job has no task.

        Raises:
            ClusterError: There is no such job.
        """
        tasks = self._job(job_name)
        return [tasks.get(index) for index in range(max(tasks, default=-1) + 1)]

    def _job(self, job_name: str) -> dict[int, str]:
        if job_name not in self._jobs:
            raise ClusterError(f"No such job in cluster: {job_name!r}")
        return self._jobs[job_name]

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def __eq__(self, other: object) -> bool:
        return self._jobs == other._jobs if isinstance(other, ClusterSpec) else NotImplemented

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"ClusterSpec({dict(sorted(self.as_dict().items()))})"


def _tasks(job: str, tasks: object) -> dict[int, str]:
    """Return one job's addresses by ascending index, after checking them."""
    if isinstance(tasks, Mapping):
        numbered = [(check_index(key, f"a task of job {job!r}"), address) for key, address in tasks.items()]
    elif isinstance(tasks, list | tuple):
        numbered = list(enumerate(tasks))
    else:
        raise ClusterTypeError(
            f"The tasks for job {job!r} must be a list or a dictionary from integers to strings. "
            f"Given: {tasks!r}."
        )
    by_index: dict[int, str] = {}
    for index, address in numbered:
        if not isinstance(address, str):
            raise ClusterTypeError(
                f"Task address {address!r} must be bytes or unicode; muster takes text only. "
                f"It is that of task {index} of job {job!r}."
            )
        if index < 0:
            raise ClusterError(f"Job {job!r} has a task with the negative index {index}. Count from 0.")
        if index in by_index:
            raise ClusterError(
                f"Job {job!r} has two tasks with index {index}: {by_index[index]!r} and {address!r}."
            )
        by_index[index] = address
    return dict(sorted(by_index.items()))
