"""Connect the coordinator to the other tasks of its job."""

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from muster._errors import RosterError
from muster.cluster import ClusterSpec, Task, TaskType
from muster.cluster.roster import Roster, TaskState, derive_job_id, query_status
from muster.distribute.closures import PURPOSE as CLOSURES
from muster.distribute.closures import JobEnd
from muster.net import Connection, Credentials, Hello, dial
from muster.ps import PURPOSE as STORE
from muster.ps import Dialer, Servers, encode
from muster.ps.contents.updates import versions

_log = logging.getLogger(__name__)

# How long tasks may take to hear that the job has ended, in seconds.
_END_SECS = 5.0
# What the coordinator does not report of itself: it coordinates while workers train.
_COMPUTERS = frozenset(("state", "input_wait", "totals"))


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
        self._reached = False  # any task
        self._on_close: list[Callable[[], None]] = []
        self._samples: list[Callable[[], Mapping[str, Any]]] = []
        self.run = uuid.uuid4().hex

    def dial_to(self, task: Task, purpose: str) -> Dialer:
        """Return what connects to a task.

        Args:
            task: A task of the cluster.
            purpose: What the connection is for: the task has a handler for that.
        """
        return partial(self._dial, task, purpose)

    def name_of(self, task: Task) -> str:
        """Return a task's name and address, for messages."""
        return f"{task} at {self._cluster.task_address(task.type, task.index)}"

    def ask(self, task: Task, timeout_secs: float) -> None:
        """Return if a task's process answers, however busy it is.

        Raises:
            OSError: It does not.
            StrayPeerError: Something else does.
        """
        address = self._cluster.task_address(task.type, task.index)
        query_status(address, timeout_secs, Credentials.from_environ(self._environ), task=task)

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
                self._roster.report(state=TaskState.COORDINATING)
                for sample in self._samples:
                    self._roster.report_from(sample)
            return self._roster

    def report(self, **fields: Any) -> None:
        """Report fields of ``muster.cluster.Progress``, but for those that are of tasks that compute."""
        if (roster := self.roster) is not None:
            roster.report(**{name: fields[name] for name in fields.keys() - _COMPUTERS})

    def report_from(self, sample: Callable[[], Mapping[str, Any]]) -> None:
        """Report fields that a function returns, once a second, as of ``Roster.report_from``."""
        with self._lock:
            self._samples.append(sample)
            if self._roster is not None:
                self._roster.report_from(sample)

    def on_close(self, call: Callable[[], None]) -> None:
        """Call a function at `close`, before tasks hear that the job has ended."""
        self._on_close.append(call)

    def close(self, *, ends: bool) -> None:
        """Leave the tasks, and stop listening.

        Args:
            ends: Whether to tell them that the job has ended.
        """
        while self._on_close:
            self._on_close.pop()()
        if ends and self._reached:
            self._end()
        self._reached = False
        with self._lock:
            if self._roster is not None:
                self._roster.done()
                self._roster.close()
                self._roster = None

    def _end(self) -> None:
        """Tell all tasks at the same time; who cannot be reached is left to whoever started it."""
        cluster = self._cluster
        kinds = [kind for kind in (TaskType.WORKER, TaskType.PS) if kind in cluster.jobs]
        tasks = [Task(kind, index) for kind in kinds for index in cluster.task_indices(kind)]
        threads = [
            threading.Thread(target=self._tell, args=(task,), name="muster-end", daemon=True)
            for task in tasks
        ]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 2 * _END_SECS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _tell(self, task: Task) -> None:
        try:
            if task.type == TaskType.PS:
                server = self.name_of(task), self.dial_to(task, STORE)
                client = Servers.of_program(
                    [server], self.run, versions(), starts=True, deadline_secs=_END_SECS
                )
                try:
                    client.end()
                finally:
                    client.close()
            else:
                with self._dial(task, CLOSURES, _END_SECS) as connection:
                    connection.send_all(encode(JobEnd(), ()), time.monotonic() + _END_SECS)
        except (OSError, RosterError) as exc:
            _log.warning("%s does not hear that the job has ended: %s", self.name_of(task), exc)

    def _dial(self, task: Task, purpose: str, timeout_secs: float) -> Connection:
        address = self._cluster.task_address(task.type, task.index)
        if (roster := self.roster) is not None:
            connection = roster.dial(task, address, purpose, timeout_secs)
        else:
            hello = Hello(
                purpose=purpose,
                name=str(Task(TaskType.CHIEF, 0)),
                callee=str(task),
                job=self._environ.get("MUSTER_JOB_ID") or derive_job_id(self._cluster),
                run=self.run,
            )
            connection = dial(address, hello, Credentials.from_environ(self._environ), timeout_secs)
        self._reached = True
        return connection
