"""The engine of this machine: a process for each task."""

import contextlib
import selectors
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from muster.cluster import Task
from muster.engines._engine import Place, TaskCondition, TaskExit, TaskRequest, TaskStart
from muster.engines._machine import MachineResources
from muster.engines._process import KeeperProcess, Port, TaskProcess, adopt_orphans, reap_orphans

# Where parameter servers keep what they go on from.
_SNAPSHOTS = "MUSTER_SNAPSHOT_DIR"


class LocalEngine:
    """Starts tasks on this machine.

    Linux only. Must be used by the main thread: Linux sends a child the signal of its parent's death when the
    *thread* ends that started it.

    Args:
        resources: What the tasks share.
        grace_secs: How long tasks may take to end after the death of this process, in seconds.
        environ: The variables that tasks inherit, beside those that they are started with.
        interface: The address at which tasks listen.
        host: What the others call this machine in addresses; empty for the interface.
        mark: A variable whose value only processes of this engine's tasks have, in an attempt.
    """

    is_local = True
    allots = False
    manifest = ""
    hosts_return = False

    def __init__(
        self,
        resources: MachineResources,
        *,
        grace_secs: float,
        environ: Mapping[str, str] = MappingProxyType({}),
        interface: str = "127.0.0.1",
        host: str = "",
        mark: str = "MUSTER_JOB_ID",
    ) -> None:
        self._resources = resources
        self._grace_secs = grace_secs
        self._environ = environ
        self._interface = interface
        self._host = host or interface
        self._mark = mark
        self._selector = selectors.DefaultSelector()
        self._keeper: KeeperProcess | None = None
        self._ports: dict[Task, Port] = {}
        self._processes: dict[Task, TaskProcess] = {}  # those that run
        self._snapshots: set[Path] = set()

    def place(
        self,
        tasks: Sequence[Task],
        request: TaskRequest,
        program: tuple[str, ...],
        numbers: Sequence[int] = (),
    ) -> Mapping[Task, Place]:
        """Reserve a port for each task, at which it is listened from now on; see `Engine.place`.

        Args:
            numbers: The ports; empty for any that are free.

        Raises:
            OSError: One of them is not free.
        """
        wanted = zip(tasks, numbers or [0] * len(tasks), strict=True)
        self._ports = {task: Port(self._interface, number) for task, number in wanted}
        return {
            task: Place(host="", address=f"{_bracketed(self._host)}:{port.number}", resources=self._resources)
            for task, port in self._ports.items()
        }

    def check(self, tasks: Sequence[Task], request: TaskRequest, program: tuple[str, ...]) -> str:
        """Return nothing: there is no cluster manager; see `Engine.check`."""
        return ""

    def detach(self, tasks: Sequence[Task], request: TaskRequest, program: tuple[str, ...]) -> str:
        """Return nothing, likewise; see `Engine.detach`."""
        return ""

    def start(self, start: TaskStart) -> None:
        """Start a task; see `Engine.start`."""
        environment = {**self._environ, **start.environment}
        if start.snapshots and _SNAPSHOTS not in environment:
            # The folder of logs may be a user's, which other jobs write into.
            name = environment["MUSTER_JOB_ID"].rpartition("-")[0]
            folder = (start.log.parent / f"snapshots-{name}").absolute()
            self._snapshots.add(folder)
            environment[_SNAPSHOTS] = str(folder)
        if self._keeper is None:
            adopt_orphans()
            self._keeper = KeeperProcess(f"{self._mark}={environment[self._mark]}", self._grace_secs)
        process = TaskProcess(start, self._ports[start.task].listen(), environment)
        self._processes[start.task] = process
        self._keeper.add(process)
        self._selector.register(process, selectors.EVENT_READ)

    def fileno(self) -> int:
        """Return a descriptor that is readable when a task has ended."""
        return self._selector.fileno()

    def events(self) -> list[TaskExit]:
        """Return the ends of tasks; see `Engine.events`."""
        ready = {key.fileobj for key, _ in self._selector.select(0)} if self._processes else set()
        exits = []
        for task, process in [*self._processes.items()]:
            if process in ready:
                self._selector.unregister(process)
                del self._processes[task]
                exits.append(process.collect())
        if self._keeper is not None:
            reap_orphans({self._keeper.pid, *(process.pid for process in self._processes.values())})
        return exits

    def news(self) -> list[str]:
        """Return nothing: all is in the ends of tasks."""
        return []

    def returned(self) -> list[Task]:
        """Return nothing: this machine is there."""
        return []

    def conditions(self) -> Mapping[Task, TaskCondition]:
        """Return how each running task is; see `Engine.conditions`."""
        return {task: process.condition for task, process in self._processes.items()}

    def send(self, task: Task, number: int) -> None:
        """Send a signal to a task, if it runs."""
        if task in self._processes:
            self._processes[task].send(number)

    def end_attempt(self) -> bool:
        """Kill what is left of an attempt; see `Engine.end_attempt`."""
        keeper, self._keeper = self._keeper, None
        gone = keeper is None or keeper.finish()
        # There are some only when an error ends the launcher: the keeper has killed them.
        for process in self._processes.values():
            self._selector.unregister(process)
            process.collect()
        self._processes.clear()
        for port in self._ports.values():
            port.close()
        self._ports = {}
        return gone

    def close(self, code: int = 1) -> None:
        """End all tasks, and remove the snapshots of servers that were not told of the job's end."""
        with contextlib.closing(self._selector):
            self.end_attempt()
        for folder in self._snapshots:
            shutil.rmtree(folder, ignore_errors=True)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
