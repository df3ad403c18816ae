"""`Server`: serves a task of a job with parameter servers to the other tasks."""

import atexit
import contextlib
import dataclasses
import functools
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from muster import cpu, lifecycle
from muster._errors import ClusterError
from muster._paths import local_path
from muster.cluster import ClusterSpec, Task, TaskType
from muster.cluster.roster import Roster, TaskState, WorkTotals
from muster.distribute.closures import PURPOSE as CLOSURES
from muster.distribute.closures import ClosureService
from muster.distribute.servers._build_server import SnapshotConfig, build_server
from muster.distribute.servers._remote_servers import RemoteServers
from muster.lifecycle import SignalWatch
from muster.net import Handler
from muster.ps import PURPOSE, SAVE_PURPOSE, Dialer, PartWriter, Servers, Service, Statistics
from muster.ps.contents.updates import versions

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

# Names the folder of all servers' snapshots, as `muster run` sets it.
_SNAPSHOT_DIR = "MUSTER_SNAPSHOT_DIR"


class Server:
    """Runs the server of one task of a cluster.

    A parameter server holds variables for the others. The server of a worker runs what a `ClusterCoordinator`
    asks it to. That of a chief or worker tells who asks how the task fares, and connects it to the parameter
    servers.

    Args:
        server_or_cluster_def: The tasks of the job and their addresses: a `ClusterSpec`, or what makes one.
            At port 0 a task listens at a free port, which `target` names once it has started.
        job_name: The type of this task: ``"ps"``, ``"worker"`` or ``"chief"``. None if there is only one.
        task_index: The index of this task. None if it is the only one of its type.
        protocol: Accepted for TensorFlow's programs; "grpc" there.
        config: Accepted for TensorFlow's programs.
        start: Whether to start at once.
        snapshot_dir: The folder in which a parameter server keeps what it goes on from when it is killed and
            started again. None takes a folder in the one that the environment variable MUSTER_SNAPSHOT_DIR
            names, if there is one; else its loss ends the job.
        snapshot_secs: How many seconds of training it may lose then; None for any number.
        snapshot_updates: How many updates it may lose then; None for any number. Writing snapshots takes no
            more than a tenth of the time, so that it may lose more where they are large.

    Raises:
        ValueError: The cluster has several tasks, and the arguments do not say which.
        ClusterError: The cluster does not have the task.
        AddressInUseError: Another process listens at the task's address.

    Source: tensorflow/python/training/server_lib.py, ``Server``. There `join` never returns; here it does
    when the chief has ended the job.

    Example:
        ```python
        cluster = muster.cluster.ClusterSpec({"ps": ["localhost:0"], "chief": ["localhost:2222"]})
        with muster.distribute.Server(cluster, "ps", 0) as server:
            assert server.target.startswith("grpc://localhost:")
            # server.join() would wait until the chief has ended the job.
        ```
    """

    def __init__(
        self,
        server_or_cluster_def: ClusterSpec | Mapping[str, Any],
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: Any = None,
        start: bool = True,
        *,
        snapshot_dir: str | os.PathLike[str] | None = None,
        snapshot_secs: float | None = 10.0,
        snapshot_updates: int | None = None,
    ) -> None:
        lifecycle.install()
        self._cluster = cluster = ClusterSpec(server_or_cluster_def)
        if job_name is None:
            job_name = _only("job_name", cluster.jobs, cluster)
        if task_index is None:
            task_index = _only("task_index", cluster.task_indices(job_name), cluster)
        self._task = Task(job_name, task_index)
        self._address = cluster.task_address(job_name, task_index)
        self._keeping: SnapshotConfig | None = None
        if snapshot_dir is None and job_name == TaskType.PS and (parent := os.environ.get(_SNAPSHOT_DIR)):
            snapshot_dir = os.path.join(parent, f"ps-{task_index}")
        if snapshot_dir is not None:
            self._keeping = SnapshotConfig(local_path(snapshot_dir), snapshot_secs, snapshot_updates)
        self._service: Service | None = None
        self._closures: ClosureService | None = None
        self._reported = Statistics()
        self._first: tuple[WorkTotals, float] | None = None  # what totals begin from, and when
        self._part_writer: PartWriter | None = None
        self._roster: Roster | None = None
        if start:
            self.start()

    @classmethod
    def create_local_server(cls, config: Any = None, start: bool = True) -> Self:
        """Return the server of the only task of a cluster, at a free port of this host.

        Args:
            config: Accepted for TensorFlow's programs.
            start: Whether to start at once.
        """
        return cls({"localhost": ["localhost:0"]}, config=config, start=start)

    @property
    def target(self) -> str:
        """The address of this task, as TensorFlow writes it."""
        return f"grpc://{self._address}"

    def start(self) -> None:
        """Listen at the task's address; does nothing if it does already."""
        if self._roster is not None:
            return
        service: Service | None = None
        handlers: dict[str, Handler] = {}
        if self._task.type == TaskType.PS:
            service, self._part_writer, handlers = build_server(
                str(self._task),
                keeps_step=self._task.index == 0,
                workers=_workers(self._cluster),
                keeping=self._keeping,
                report=self._report,
            )
        elif self._task.type == TaskType.WORKER:
            connect = functools.partial(self.store, starts=False)
            self._closures = ClosureService(str(self._task), self._task.index, connect)
            handlers = {CLOSURES: self._closures.serve}
            # A thread that computes by JAX while Python ends would abort the process. The coordinator may be
            # part of the same program, and be made later: its connections end first.
            if not lifecycle.at_block_end(self._end_block):
                atexit.register(self._closures.close)
        try:
            # Tasks of such a job do without each other: no roster watches another task.
            self._roster = Roster.from_environ(
                self._with_listener(os.environ),
                self._cluster,
                self._task,
                handlers=handlers,
                peers=(),
                on_lost=_ignore,
            )
        except BaseException:
            if service is not None:
                service.close()
            raise
        if service is not None:
            self._service = service
            service.start(self._roster.statuses()[self._task].job)
            self._roster.report(state=TaskState.TRAINING)
        if self._closures is not None:
            self._roster.report_from(self._closures.sample)

    def _with_listener(self, environ: Mapping[str, str]) -> Mapping[str, str]:
        """Listen at a free port if this task's is 0, and return the environment that says where."""
        host, _, port = self._address.rpartition(":")
        if port != "0":
            return environ
        bare = host.strip("[]")
        family = socket.AF_INET6 if ":" in bare else socket.AF_INET
        listener = socket.create_server((bare, 0), family=family)
        self._address = f"{host}:{listener.getsockname()[1]}"
        return {**environ, "MUSTER_LISTEN_FD": str(listener.detach())}

    def join(self) -> None:
        """Serve until the chief has ended the job.

        At Ctrl-C and SIGTERM, which may have come to all tasks, a parameter server goes on until the workers
        have gone, and a worker until its coordinator has, so that the chief can save. Once more ends it at
        once.

        If the main thread waits here, XLA gets one thread for updates, unless the environment variable
        ``NPROC`` says how many: where workers share the cores, each more is one more to wait for.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed; SystemExit for SIGTERM.
            MissingPeerError: The coordinator is gone, and no other one has come for ten minutes.
        """
        self.start()
        service, closures = self._service, self._closures
        if service is None and closures is None:
            raise RuntimeError(f"{self._task} is neither a parameter server nor a worker: it serves nobody.")
        _log.info("%s serves at %s until the chief ends the job.", self._task, self._address)
        if service is not None:
            with _one_thread():
                self._join_until_left(service, "workers have")
        elif closures is not None:
            self.roster.report(state=TaskState.TRAINING)
            self._join_until_left(closures, "coordinator has")
        _log.info("%s ends, as the job has ended.", self._task)

    def _join_until_left(self, service: Service | ClosureService, others_have: str) -> None:
        def leave() -> None:
            _log.warning(
                "%s serves until the %s gone; another signal stops it at once.", self._task, others_have
            )
            service.leave()

        with SignalWatch(leave).watched() as signals:
            service.join()
        self.close()
        try:
            signals.raise_received()
        except KeyboardInterrupt as exc:
            lifecycle.mark_told(exc)
            raise

    def connect(self, *, starts: bool) -> RemoteServers:
        """Return the connections of this task to all parameter servers, which are made when they are needed.

        Args:
            starts: Whether this is the chief, whose values the servers start from.

        Raises:
            ClusterError: There is no parameter server, or more than one chief.
        """
        dials, save_dials = self._named_dials(PURPOSE), self._named_dials(SAVE_PURPOSE)
        return RemoteServers(str(self._task), dials, save_dials, starts=starts)

    def store(self, origin: str, *, starts: bool) -> Servers:
        """Return a client of all parameter servers, for variables of a coordinator; for one thread.

        Args:
            origin: The random id of the coordinator's program, the same in all tasks.
            starts: Whether this is the coordinator.

        Raises:
            ClusterError: There is no parameter server, or more than one chief.
        """
        return Servers.of_program(self._named_dials(PURPOSE), origin, versions(), starts=starts)

    def _named_dials(self, purpose: str) -> list[tuple[str, Dialer]]:
        """Return the name of each parameter server, and what connects to it."""
        if self._roster is None:
            raise RuntimeError("Start the server first.")
        if TaskType.PS not in self._cluster.jobs or not self._cluster.num_tasks(TaskType.PS):
            raise ClusterError(
                f"There must be at least one ps. Given: {self._cluster}. Add the addresses of parameter "
                "servers as the job 'ps', or train by MultiWorkerMirroredStrategy."
            )
        if TaskType.CHIEF in self._cluster.jobs and self._cluster.num_tasks(TaskType.CHIEF) > 1:
            raise ClusterError(
                f"There must be at most one 'chief' job. Given: {self._cluster}. Make the others workers."
            )
        return [
            (f"ps {index} at {self._cluster.task_address(TaskType.PS, index)}", self._dial_to(index, purpose))
            for index in self._cluster.task_indices(TaskType.PS)
        ]

    @property
    def roster(self) -> Roster:
        """The roster of this task, which answers who asks how it fares."""
        if self._roster is None:
            raise RuntimeError("Start the server first.")
        return self._roster

    def close(self) -> None:
        """End, with all connections."""
        if self._service is not None:
            self._service.close()
        if self._closures is not None:
            self._closures.close()
            atexit.unregister(self._closures.close)
        if self._part_writer is not None:
            self._part_writer.close()
        if self._roster is not None:
            self._roster.done()
            self._roster.close()

    def _end_block(self, error: BaseException | None) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _report(self, statistics: Statistics) -> None:
        totals = self._totals(statistics)
        if not statistics.workers:  # that train by a plan: these are a coordinator's variables
            if statistics.version:
                self.roster.report(pulls=statistics.pulls, pushes=statistics.pushes, totals=totals)
            return
        before, self._reported = self._reported, statistics
        pushes = statistics.pushes - before.pushes
        self.roster.report(
            totals=totals,
            step=statistics.step or None,
            pulls=statistics.pulls,
            pushes=statistics.pushes,
            queue=statistics.waiting,
            staleness=(statistics.staleness - before.staleness) / pushes if pushes else None,
        )

    def _totals(self, statistics: Statistics) -> WorkTotals | None:
        """Return what this parameter server has spent its time on since the first pushes it has reported."""
        if self._service is None or not statistics.pushes:
            return None
        now = time.monotonic()
        totals = WorkTotals(
            steps=statistics.pushes,
            compute=self._service.busy_secs,
            nbytes=statistics.received_bytes + statistics.sent_bytes,
        )
        before, began = self._first = self._first or (totals, now)
        since = totals.since(before)
        return dataclasses.replace(since, idle=max(0.0, now - began - since.compute))

    def _dial_to(self, index: int, purpose: str) -> Any:
        task, address = Task(TaskType.PS, index), self._cluster.task_address(TaskType.PS, index)
        return lambda timeout_secs: self.roster.dial(task, address, purpose, timeout_secs)


def _only(argument: str, found: Sequence[_T], cluster: ClusterSpec) -> _T:
    """Return the only one, or ask for the argument that chooses one."""
    if len(found) != 1:
        raise ValueError(f"Must specify an explicit `{argument}`: the cluster is {cluster}.")
    return found[0]


def _workers(cluster: ClusterSpec) -> int:
    trainers = (TaskType.CHIEF, TaskType.MASTER, TaskType.WORKER)
    return sum(cluster.num_tasks(job) for job in trainers if job in cluster.jobs)


def _ignore(task: Task, reason: str) -> None:
    """Go on without a task that is lost."""


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Let XLA have one thread, if it starts meanwhile in a process that does nothing else."""
    alone = threading.current_thread() is threading.main_thread()
    if alone:
        cpu.compute_at_once()
    sets = alone and "NPROC" not in os.environ
    if sets:
        os.environ["NPROC"] = "1"
    try:
        yield
    finally:
        if sets:
            os.environ.pop("NPROC", None)
