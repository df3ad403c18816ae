"""What a launcher and its agent on a host tell each other: frames, after a line in which the agent greets."""

import msgspec

from muster.cluster import Task
from muster.cluster.roster import Progress, Termination

# The longest message: an output, or the files of a program, in bytes.
LIMIT = 1 << 28
# The line of an agent that greets begins so, before JSON; what a login prints above is no part of the talk.
GREETING = b"\nmuster-agent "
# How often each side says that it is there, and how long the other one may be silent, in seconds.
PING_SECS, SILENCE_SECS = 2.0, 30.0


class AgentHello(msgspec.Struct, frozen=True):
    """The greeting: who answers.

    Attributes:
        muster: The version of muster there.
        python: The version of Python there.
    """

    muster: str
    python: str


class PlaceTasks(msgspec.Struct, frozen=True, tag=True):
    """Reserve addresses for tasks, and see whether the program is there.

    Attributes:
        tasks: All tasks of this host.
        address: What others call this host.
        workdir: The folder to run in; empty for the agent's own.
        program: The words after the interpreter.
        grace_secs: How long tasks may take to end when the connection has broken, in seconds.
        environ: The variables that tasks are handed.
        files: A tar archive of the program's folder, which is unpacked and run in; empty to run in the
            workdir.
        addresses: Those that the tasks had when the host was lost, which it gives them again; else empty.
    """

    tasks: list[Task]
    address: str
    workdir: str
    program: tuple[str, ...]
    grace_secs: float
    environ: dict[str, str]
    files: bytes = b""
    addresses: list[str] = []


class StartTask(msgspec.Struct, frozen=True, tag=True):
    """Start a task; see `TaskStart`."""

    task: Task
    program: tuple[str, ...]
    environment: dict[str, str]
    cores: tuple[int, ...] | None
    snapshots: bool


class SignalTask(msgspec.Struct, frozen=True, tag=True):
    """Send a signal to a task."""

    task: Task
    number: int


class EndAttempt(msgspec.Struct, frozen=True, tag=True):
    """End what is left of an attempt."""


class JobEnded(msgspec.Struct, frozen=True, tag=True):
    """Tell an agent how the job has ended, before the connection is closed."""

    code: int


class SignalReceived(msgspec.Struct, frozen=True, tag=True):
    """The process of an agent has got a signal, which is meant for the job."""

    number: int


class Ping(msgspec.Struct, frozen=True, tag=True):
    """Say that one is there."""


class TasksPlaced(msgspec.Struct, frozen=True, tag=True):
    """The answer to `PlaceTasks`: an address for each task, the resources of the host, and its time."""

    addresses: list[str]
    cores: tuple[tuple[int, ...], ...]
    gpus: tuple[str, ...]
    memory: int | None
    time: float


class PlaceRefused(msgspec.Struct, frozen=True, tag=True):
    """The other answer: what is wrong."""

    reason: str


class TaskOutput(msgspec.Struct, frozen=True, tag=True):
    """What a task has written since the last time."""

    task: Task
    data: bytes


class TaskReport(msgspec.Struct, frozen=True, tag=True):
    """How a task is, told when that changes; see `TaskCondition`."""

    task: Task
    pid: int
    joined: bool
    stopped: bool
    finishing: bool


class TaskGone(msgspec.Struct, frozen=True, tag=True):
    """A task has ended; see `TaskExit`. All of its output was sent before.

    Attributes:
        logs: The logs of events that it has left, by the end of their names, such as ``watch.events``.
    """

    task: Task
    code: int
    told: Termination | None
    joined: bool
    progress: Progress | None
    logs: dict[str, bytes]


class AttemptEnded(msgspec.Struct, frozen=True, tag=True):
    """The answer to `EndAttempt`: whether nothing is left."""

    clean: bool


Request = PlaceTasks | StartTask | SignalTask | EndAttempt | JobEnded | Ping
Reply = TasksPlaced | PlaceRefused | TaskOutput | TaskReport | TaskGone | AttemptEnded | SignalReceived | Ping
