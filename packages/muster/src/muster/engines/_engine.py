"""The interface of engines: what starts the tasks of a job, and says how they are."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from muster.cluster import Task
from muster.cluster.roster import Progress, Termination
from muster.engines._machine import MachineResources

# The code of a task whose end nobody has seen, as its host is lost: what `ssh` ends with then.
EXIT_LOST = 255


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskRequest:
    """What each task of a job asks for.

    Args:
        cpus: Cores; None: what the engine gives by default.
        gpus: GPUs of a task that trains; None likewise.
        memory: Memory, in bytes; None for no limit.
    """

    cpus: int | None = None
    gpus: int | None = None
    memory: int | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Place:
    """Where a task runs.

    Args:
        host: The machine, or the part of one: tasks with the same share its resources.
        address: Where the task listens, ``host:port``. Nobody else gets it until the attempt ends.
        resources: What the tasks of the host share.
    """

    host: str
    address: str
    resources: MachineResources


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskStart:
    """A task to be started at its place.

    Args:
        task: The task.
        program: The words after the interpreter.
        environment: The variables that are set for it, beside those of its place.
        cores: The logical processors that it may use; None for all.
        log: The file of the launcher's that its output is added to.
        snapshots: Whether it needs a folder that outlives it, ``MUSTER_SNAPSHOT_DIR``, unless one is set.
    """

    task: Task
    program: tuple[str, ...]
    environment: Mapping[str, str]
    cores: tuple[int, ...] | None
    log: Path
    snapshots: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskExit:
    """A task has ended, and all of its output is in its log.

    Args:
        task: The task.
        code: Its return code, negative for a signal; `EXIT_LOST` if its host is lost.
        told: Why it has ended, if it or the engine knows.
        joined: Whether it had joined the other tasks.
        progress: How far it had come, if it has said so.
        lost: Whether its place is lost, so that it cannot be started until that has `returned`.
        evicted: Whether it was ended because the places of the attempt are taken away, which is no failure.
    """

    task: Task
    code: int
    told: Termination | None = None
    joined: bool = True
    progress: Progress | None = None
    lost: bool = False
    evicted: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskCondition:
    """How a running task is.

    Args:
        pid: Its process on its host; 0 if that is not known yet.
        joined: Whether it has joined the other tasks, or recorded why it ends.
        stopped: Whether it is stopped by SIGSTOP.
        finishing: Whether it handles SIGTERM, to finish a step and to save.
        state: What it does, for people.
    """

    pid: int = 0
    joined: bool = False
    stopped: bool = False
    finishing: bool = False
    state: str = "running"


class Engine(Protocol):
    """Starts the tasks of a job, and says how they are.

    All calls come from one thread, the main one. What goes wrong before `place` returns is an error. Later a
    host that is lost is an event, since the job may go on without it. No task outlives the engine, not even
    one that is killed.

    Attributes:
        is_local: Whether tasks run on this machine, with the variables of this process.
        allots: Whether places have what tasks ask for; if not, that is compared with what their hosts have.
        manifest: What is handed to a cluster manager, which starts tasks again by itself: an end is for good
            then. Empty for an engine whose tasks the launcher starts again.
        hosts_return: Whether hosts that are lost are looked for, by `returned`.
    """

    is_local: bool
    allots: bool
    manifest: str
    hosts_return: bool

    def place(
        self, tasks: Sequence[Task], request: TaskRequest, program: tuple[str, ...]
    ) -> Mapping[Task, Place]:
        """Reserve a place for each task of an attempt.

        Args:
            tasks: All tasks of the job.
            request: What each asks for.
            program: The words after the interpreter, which must be there.

        Raises:
            ClusterError: There is no room, a host cannot be reached, or lacks something; says which and what.
        """

    def check(self, tasks: Sequence[Task], request: TaskRequest, program: tuple[str, ...]) -> str:
        """Have a cluster manager check what it would be handed, and return that, for people.

        Args:
            tasks: As for `place`.
            request: Likewise.
            program: Likewise.

        Returns:
            An empty text if nothing is handed over: the launcher starts the tasks.

        Raises:
            ClusterError: The cluster refuses, or there is none.
        """

    def detach(self, tasks: Sequence[Task], request: TaskRequest, program: tuple[str, ...]) -> str:
        """Hand the job to a cluster manager, which runs it without this process; arguments as for `check`.

        Returns:
            What to say of it, for people; an empty text if there is no cluster manager: nothing is started.

        Raises:
            ClusterError: The cluster refuses, or there is none.
        """

    def start(self, start: TaskStart) -> None:
        """Start a task at its place: the first time in an attempt, or again."""

    def fileno(self) -> int:
        """Return a descriptor that is readable when `events` may return something."""

    def events(self) -> list[TaskExit]:
        """Return the ends of tasks since the last call, without waiting, and add new output to their logs."""

    def news(self) -> list[str]:
        """Return what the user is to be told since the last call, such as why a task waits."""

    def returned(self) -> list[Task]:
        """Look for hosts that were lost, and return tasks of those that are back since the last call.

        They have their addresses again, and can be started. It does not wait; hosts are only looked for
        while this is called.
        """

    def conditions(self) -> Mapping[Task, TaskCondition]:
        """Return how each running task is."""

    def send(self, task: Task, number: int) -> None:
        """Send a signal to a running task, not to what it has started."""

    def end_attempt(self) -> bool:
        """End all that is left of an attempt, give its places back; return whether nothing is left of it."""

    def close(self, code: int = 1) -> None:
        """End the engine and all that it has started. May be called again.

        Args:
            code: The exit code of the job.
        """
