"""The messages of the roster, between tasks of a job."""

import dataclasses
import enum
import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from muster.cluster._cluster_spec import Task
from muster.cluster.roster._membership_events import GroupRecord
from muster.net import ProtocolError, decode_message, encode_frame

# What roster connections are for, in their greeting.
PURPOSE = "roster"
# Enough for the announcements of any job, and small enough to buffer for every connection, in bytes.
MAX_NEWS = 1 << 20
# The longest message of a caller, in bytes.
MAX_HELLO = 1 << 12
# Longer error texts are cut, in characters.
MAX_ERROR = 8000
# So are the stacks of many threads, of which the main thread's come first, in characters.
MAX_STACKS = 100_000
# The longest text in a task's progress, in characters, and the most metrics.
_MAX_TEXT, _MAX_METRICS = 500, 50


class TaskState(enum.StrEnum):
    """The activity of a task."""

    STARTING = "starting"
    WAITING = "waiting"
    TRAINING = "training"
    COORDINATING = "coordinating"
    EVALUATING = "evaluating"
    SAVING = "saving"
    DONE = "done"
    FAILED = "failed"


@dataclasses.dataclass(frozen=True)
class WorkTotals:
    """Counts the steps and the time of a task after its first step, which compiles.

    Args:
        steps: How many steps these are; of a coordinator's worker, closures; of a parameter server, pushes.
        compute: The seconds in compiled programs, and in what is none of the others.
        input: The seconds in which steps waited for their batches.
        communication: The seconds in which values were exchanged with other tasks, and waited for.
        idle: The seconds in which a parameter server or a coordinator's worker had nothing to do.
        nbytes: The bytes of the values that were exchanged.
        squares: The sum of the squares of the seconds in which each step computed and waited for its batch,
            by which one sees how much they differ.
    """

    steps: int = 0
    compute: float = 0.0
    input: float = 0.0
    communication: float = 0.0
    idle: float = 0.0
    nbytes: int = 0
    squares: float = 0.0

    @property
    def secs(self) -> float:
        """All seconds."""
        return self.compute + self.input + self.communication + self.idle

    def since(self, before: "WorkTotals") -> "WorkTotals":
        """Return what has come after these earlier totals."""
        mine, others = dataclasses.astuple(self), dataclasses.astuple(before)
        return WorkTotals(*[mine - other for mine, other in zip(mine, others, strict=True)])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of a task.

    Args:
        state: Its activity.
        step: Its global step.
        max_steps: The global step that it stops at.
        steps_per_sec: Its speed, in training steps per second.
        loss: Its last known loss.
        input_wait: The fraction of its time that it waits for input, 0 to 1.
        waits_for: The tasks or things that it waits for; empty for none.
        pulls: How many times a parameter server has sent its values.
        pushes: How many pushes it has applied.
        queue: How many requests wait for a ticket or for first values there.
        staleness: How many changes, on average, came between a worker's values and its push of late.
        evaluation: The step and the metrics of its newest evaluation, for people; empty for none.
        epoch: The epoch that it is in, from 1.
        epochs: The epoch that it stops after.
        metrics: Its last known metrics, beside the loss.
        closures: How many closures have ended, of a coordinator all workers', of a worker its own.
        closures_per_sec: How many of them end in a second.
        checkpoint: The step of the newest checkpoint that it has written.
        totals: What it has spent its time on.
        summaries: The folder of its summaries, for TensorBoard; empty for none.
    """

    state: TaskState = TaskState.STARTING
    step: int | None = None
    max_steps: int | None = None
    steps_per_sec: float | None = None
    loss: float | None = None
    input_wait: float | None = None
    waits_for: str = ""
    pulls: int | None = None
    pushes: int | None = None
    queue: int | None = None
    staleness: float | None = None
    evaluation: str = ""
    epoch: int | None = None
    epochs: int | None = None
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    closures: int | None = None
    closures_per_sec: float | None = None
    checkpoint: int | None = None
    totals: WorkTotals | None = None
    summaries: str = ""

    def reported(self, fields: Mapping[str, Any]) -> "Progress":
        """Return it with fields as a task has reported them; those that are None stay as they were.

        Raises:
            ValueError: The state does not exist.
            TypeError: There is no such field.
        """
        given = {name: value for name, value in fields.items() if value is not None}
        changed = {name: _FIELDS[name](value) if name in _FIELDS else value for name, value in given.items()}
        return dataclasses.replace(self, **changed)


def _text(value: str) -> str:
    return value[:_MAX_TEXT]


def _finite(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers among metrics: JSON has no others."""
    numbers = {str(name)[:_MAX_TEXT]: float(value) for name, value in [*metrics.items()][:_MAX_METRICS]}
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


# How fields of `Progress` are converted when they are reported; the others stay as they are.
_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "state": TaskState,
    **dict.fromkeys(("step", "max_steps", "epoch", "epochs", "closures", "checkpoint"), int),
    **dict.fromkeys(("steps_per_sec", "loss", "input_wait", "closures_per_sec"), float),
    **dict.fromkeys(("waits_for", "evaluation", "summaries"), _text),
    "metrics": _finite,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Status:
    """The full status of a task.

    Args:
        job: The id of its job.
        task: Its type and index.
        run: A random id of its process, which distinguishes two processes that claim to be one task.
        pid: Its process id, on its host.
        host: The name of its host.
        versions: The versions of its software.
        training: The tasks of its cluster that train together.
        reached: The `run` of each task that it has reached, by the task's name.
        progress: Its progress.
        error: The reason if it failed.
        blamed: The lost task, if it failed because of one.
        announcements: The values that it has announced, by key.
        membership: What it says about its group; None if the job is not elastic.
        stacks: Where its threads are, for a caller who asks for it.
    """

    job: str
    task: Task
    run: str
    pid: int
    host: str
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    training: tuple[Task, ...] = ()
    reached: Mapping[str, str] = dataclasses.field(default_factory=dict)
    progress: Progress = Progress()
    error: str = ""
    blamed: Task | None = None
    announcements: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    membership: GroupRecord | None = None
    stacks: str = ""

    @property
    def state(self) -> TaskState:
        """Its activity."""
        return self.progress.state

    def __str__(self) -> str:
        return f"{self.task} of job {self.job} (process {self.pid} on {self.host})"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RosterHello:
    """The first and only message of a caller that has proved itself.

    Args:
        watch: Whether it subscribes to changes; else it gets one answer.
        caller: Its status; None if it is no task.
        stacks: Whether it asks where the task's threads are.
    """

    watch: bool
    caller: Status | None = None
    stacks: bool = False


class _News(msgspec.Struct, omit_defaults=True):
    """A message to subscribers: a full status, or a heartbeat with the progress alone."""

    status: Status | None = None
    progress: Progress | None = None


def encode_status(status: Status) -> bytes:
    """Encode a status as a frame."""
    return encode_frame(_News(status=status))


def encode_beat(progress: Progress) -> bytes:
    """Encode a heartbeat as a frame: the progress alone."""
    return encode_frame(_News(progress=progress))


def encode_hello(hello: RosterHello) -> bytes:
    """Encode a caller's message as a frame; of its status, who it is."""
    caller = hello.caller
    if caller is not None:
        caller = Status(job=caller.job, task=caller.task, run=caller.run, pid=caller.pid, host=caller.host)
    return encode_frame(dataclasses.replace(hello, caller=caller))


def decode_news(message: bytes) -> Status | Progress:
    """Decode a message of `encode_status` or `encode_beat`; ProtocolError if it is something else."""
    news = decode_message(message, _News)
    if news.status is not None:
        return dataclasses.replace(news.status, error=news.status.error[:MAX_ERROR])
    if news.progress is None:
        raise ProtocolError("it sends a message without news")
    return news.progress


def decode_hello(message: bytes) -> RosterHello:
    """Decode a message of `encode_hello`; ProtocolError if it is something else."""
    return decode_message(message, RosterHello)
