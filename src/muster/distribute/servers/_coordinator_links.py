"""How the coordinator of a job reaches the job's other tasks."""

import os
import threading
import uuid
from collections.abc import Mapping
from functools import partial

from muster.cluster import ClusterSpec, Task, TaskType
from muster.cluster.roster import Roster, TaskState, derive_job_id
from muster.net import Connection, Credentials, Hello, dial
from muster.ps import Dial


class CoordinatorLinks:
    """Connects the coordinator to servers and workers, which may start before or after it.

    A coordinator that the cluster lists, as its chief, listens at its address and says how it fares. One that
    it does not list, as in a cluster of threads, only calls.

    Args:
        cluster: The tasks of the job and their addresses.
        environ: Says the job's id and secret, as ``muster run`` sets them.

    Attributes:
        run: The random id of this process' coordinator.
    """

    def __init__(self, cluster: ClusterSpec, environ: Mapping[str, str] | None = None) -> None:
        self._cluster = cluster
        self._environ = os.environ if environ is None else environ
        self._roster: Roster | None = None
        self._lock = threading.Lock()
        self.run = uuid.uuid4().hex

    def dial_to(self, task: Task, purpose: str) -> Dial:
        """Return what connects to a task.

        Args:
            task: A task of the cluster.
            purpose: What the connection is for: the task has a handler for that.
        """
        return partial(self._dial, task, purpose)

    def name_of(self, task: Task) -> str:
        """Return a task's name and address, for messages."""
        return f"{task} at {self._cluster.task_address(task.type, task.index)}"

    @property
    def roster(self) -> Roster | None:
        """The roster by which the chief of the cluster says how it fares; None if the cluster lists none."""
        jobs = self._cluster.jobs
        with self._lock:
            if self._roster is None and TaskType.CHIEF in jobs:
                (index,) = self._cluster.task_indices(TaskType.CHIEF)
                chief = Task(TaskType.CHIEF, index)
                # No task of such a job watches another: their connections say who is gone.
                self._roster = Roster.from_environ(
                    self._environ, self._cluster, chief, peers=(), on_lost=lambda task, reason: None
                )
                self._roster.report(state=TaskState.STARTING)
            return self._roster

    def close(self) -> None:
        """Stop listening."""
        with self._lock:
            if self._roster is not None:
                self._roster.done()
                self._roster.close()
                self._roster = None

    def _dial(self, task: Task, purpose: str, timeout_secs: float) -> Connection:
        address = self._cluster.task_address(task.type, task.index)
        if (roster := self.roster) is not None:
            return roster.dial(task, address, purpose, timeout_secs)
        hello = Hello(
            purpose=purpose,
            name=str(Task(TaskType.CHIEF, 0)),
            callee=str(task),
            job=self._environ.get("MUSTER_JOB_ID") or derive_job_id(self._cluster),
            run=self.run,
        )
        return dial(address, hello, Credentials.from_environ(self._environ), timeout_secs)
