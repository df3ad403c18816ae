"""The messages between tasks of a job: JSON objects, one a line, each with the protocol's version."""

import dataclasses
import enum
import json
import math
from collections.abc import Mapping
from typing import Any, TypeVar

from muster._text import printable_json
from muster.cluster._task import Task

PROTOCOL = 1
# Enough for the announcements of any job, and small enough to buffer for every connection, in bytes.
MAX_LINE = 1 << 20
# The longest greeting of a caller, in bytes.
MAX_HELLO = 1 << 12
# Longer error texts are cut, in characters.
MAX_ERROR = 8000

_T = TypeVar("_T")


class ProtocolError(ValueError):
    """Bytes are not a message of this protocol. The text describes them."""


class TaskState(enum.StrEnum):
    """The activity of a task."""

    STARTING = "starting"
    WAITING = "waiting"
    TRAINING = "training"
    EVALUATING = "evaluating"
    SAVING = "saving"
    DONE = "done"
    FAILED = "failed"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Progress:
    """The progress of a task.

    Args:
        state: Its activity.
        step: Its global step.
        steps_per_sec: Its speed, in training steps per second.
        loss: Its last known loss.
        input_wait: The fraction of its time that it waits for input, 0 to 1.
        waits_for: The tasks or things that it waits for; empty for none.
    """

    state: TaskState = TaskState.STARTING
    step: int | None = None
    steps_per_sec: float | None = None
    loss: float | None = None
    input_wait: float | None = None
    waits_for: str = ""


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
        reached: The tasks that it has reached, with their `run`.
        progress: Its progress.
        error: The reason if it failed.
        blamed: The lost task, if it failed because of one.
        announcements: The values that it has announced, by key.
        stacks: Where its threads are, for a caller who asks for it.
    """

    job: str
    task: Task
    run: str
    pid: int
    host: str
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    training: tuple[Task, ...] = ()
    reached: Mapping[Task, str] = dataclasses.field(default_factory=dict)
    progress: Progress = Progress()
    error: str = ""
    blamed: Task | None = None
    announcements: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    stacks: str = ""

    @property
    def state(self) -> TaskState:
        """Its activity."""
        return self.progress.state

    def __str__(self) -> str:
        return f"{self.task} of job {self.job} (process {self.pid} on {self.host})"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hello:
    """The first and only message of a caller.

    Args:
        watch: Whether it subscribes to changes; else it gets one answer.
        caller: Its status; None if it is no task.
        stacks: Whether it asks where the task's threads are.
    """

    watch: bool
    caller: Status | None = None
    stacks: bool = False


class LineBuffer:
    """Splits a stream of bytes into lines that may be messages.

    Args:
        limit: The longest line that is allowed, in bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add received bytes, and return the lines that are now complete.

        Raises:
            ProtocolError: A line does not start as a message does, or is too long.
        """
        searched = len(self._rest)
        self._rest += data
        lines = []
        while (end := self._rest.find(b"\n", searched)) >= 0:
            lines.append(bytes(self._rest[:end]))
            self._check(lines[-1])
            del self._rest[: end + 1]
            searched = 0
        if self._rest:
            self._check(self._rest)
        return lines

    def _check(self, line: bytes | bytearray) -> None:
        if not line.startswith(b"{"):
            raise ProtocolError(f"it sends {bytes(line[:60])!r}")
        if len(line) > self._limit:
            raise ProtocolError(f"it sends a line of more than {self._limit} bytes")


def encode_status(status: Status) -> bytes:
    """Encode a status as a line."""
    return _line({"status": _status_fields(status)})


def encode_beat(progress: Progress) -> bytes:
    """Encode a heartbeat as a line: the progress alone, which is sent while nothing else changes."""
    return _line({"progress": _progress_fields(progress)})


def encode_hello(hello: Hello) -> bytes:
    """Encode a greeting as a line."""
    caller = hello.caller
    if caller is not None:
        caller = dataclasses.replace(
            caller, versions={}, training=(), reached={}, progress=Progress(), error="", announcements={}
        )
    return _line({"watch": hello.watch, "caller": caller and _status_fields(caller), "stacks": hello.stacks})


def encode_refusal(text: str) -> bytes:
    """Encode the answer to a caller that does not speak this protocol."""
    return _line({"refused": text})


def decode_news(line: bytes) -> Status | Progress:
    """Decode a line of `encode_status` or `encode_beat`; ProtocolError if it is something else."""
    message = _message(line)
    if "refused" in message:
        raise ProtocolError(f"it answers: {_get(message, 'refused', str, '')[:200]}")
    if "progress" in message:
        return _progress(_get(message, "progress", dict))
    return _status(_get(message, "status", dict))


def decode_hello(line: bytes) -> Hello:
    """Decode a line of `encode_hello`; ProtocolError if it is something else."""
    message = _message(line)
    caller = _get(message, "caller", dict, {})
    return Hello(
        watch=_get(message, "watch", bool),
        caller=_status(caller) if caller else None,
        stacks=_get(message, "stacks", bool, False),
    )


def _line(content: Mapping[str, Any]) -> bytes:
    message = {"muster": PROTOCOL, **content}
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode() + b"\n"


def _message(line: bytes) -> dict[str, Any]:
    try:
        message = printable_json(json.loads(line))
    except (ValueError, RecursionError) as exc:  # bytes that are not UTF-8 are a ValueError too
        raise ProtocolError(f"it sends {line[:60]!r}") from exc
    if not isinstance(message, dict) or "muster" not in message:
        raise ProtocolError(f"it sends {line[:60]!r}")
    if message["muster"] != PROTOCOL:
        raise ProtocolError(
            f"it speaks version {str(message['muster'])[:20]} of muster's protocol, and this task speaks "
            f"version {PROTOCOL}: install the same muster everywhere"
        )
    return message


def _status_fields(status: Status) -> dict[str, Any]:
    fields = {field.name: getattr(status, field.name) for field in dataclasses.fields(status)}
    fields["progress"] = _progress_fields(status.progress)
    fields["task"] = _task_fields(status.task)
    fields["blamed"] = status.blamed and _task_fields(status.blamed)
    fields["training"] = [_task_fields(task) for task in status.training]
    fields["reached"] = [[*_task_fields(task), run] for task, run in status.reached.items()]
    return fields


def _progress_fields(progress: Progress) -> dict[str, Any]:
    fields = dataclasses.asdict(progress)
    for name in _RATES:
        # JSON has no infinity and no NaN, and a loss may be either: as text.
        if fields[name] is not None and not math.isfinite(fields[name]):
            fields[name] = str(fields[name])
    return fields


def _status(fields: Mapping[str, Any]) -> Status:
    blamed = _get(fields, "blamed", list, [])
    return Status(
        job=_get(fields, "job", str),
        task=_task(_get(fields, "task", list)),
        run=_get(fields, "run", str),
        pid=_get(fields, "pid", int),
        host=_get(fields, "host", str),
        versions={key: str(value) for key, value in _get(fields, "versions", dict, {}).items()},
        training=tuple(_task(item) for item in _get(fields, "training", list, [])),
        reached={
            _task(item[:2]): str(item[2])
            for item in _get(fields, "reached", list, [])
            if isinstance(item, list) and len(item) == 3
        },
        progress=_progress(_get(fields, "progress", dict, {})),
        error=_get(fields, "error", str, "")[:MAX_ERROR],
        blamed=_task(blamed) if blamed else None,
        announcements=_get(fields, "announcements", dict, {}),
        stacks=_get(fields, "stacks", str, ""),
    )


_RATES = ("steps_per_sec", "loss", "input_wait")


def _progress(fields: Mapping[str, Any]) -> Progress:
    state = _get(fields, "state", str, TaskState.STARTING)
    if state not in set(TaskState):
        raise ProtocolError(f"it says that its state is {state[:60]!r}, which is none")
    step = fields.get("step")
    return Progress(
        state=TaskState(state),
        step=None if step is None else _get(fields, "step", int),
        waits_for=_get(fields, "waits_for", str, ""),
        **{name: _number(fields, name) for name in _RATES},
    )


def _number(fields: Mapping[str, Any], name: str) -> float | None:
    value = fields.get(name)
    if value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as exc:
        raise ProtocolError(f"it says that its {name} is {str(value)[:60]!r}, which is no number") from exc


def _task_fields(task: Task) -> list[Any]:
    return [task.type, task.index]


def _task(value: object) -> Task:
    match value:
        case [str() as kind, int() as index]:
            return Task(kind, index)
    raise ProtocolError(f"it names the task {str(value)[:60]!r}, which is none")


def _get(fields: Mapping[str, Any], name: str, kind: type[_T], default: _T | None = None) -> _T:
    """Return a field of a message after checking its type, or the default if it is absent or null."""
    value = fields.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, kind):
        raise ProtocolError(f"it sends a message whose {name!r} is {str(value)[:60]!r}")
    return value
