"""What can happen to the roster of a task, and what it can do about it."""

import dataclasses
from typing import Any

from muster.cluster._roster_messages import Hello, Progress, Status
from muster.cluster._task import Task


@dataclasses.dataclass(frozen=True)
class Dialed:
    """There is a connection to a peer."""

    task: Task


@dataclasses.dataclass(frozen=True)
class DialFailed:
    """A peer could not be called."""

    task: Task
    why: str


@dataclasses.dataclass(frozen=True)
class Heard:
    """A peer said how it is: all of it, or only how far it is."""

    task: Task
    news: Status | Progress


@dataclasses.dataclass(frozen=True)
class Garbled:
    """What answers at a peer's address does not speak the protocol; the connection is closed."""

    task: Task
    why: str


@dataclasses.dataclass(frozen=True)
class HungUp:
    """The connection to a peer broke off."""

    task: Task
    why: str


@dataclasses.dataclass(frozen=True)
class Called:
    """Somebody called here, and said who it is."""

    caller: int
    origin: str
    hello: Hello


@dataclasses.dataclass(frozen=True)
class Announced:
    """This task has something to tell all others."""

    key: str
    value: Any


@dataclasses.dataclass(frozen=True)
class Ended:
    """This task ends: with an error, or having done its work (None)."""

    error: str | None


@dataclasses.dataclass(frozen=True)
class Tick:
    """Time has passed, and this task is that far."""

    progress: Progress


Event = Dialed | DialFailed | Heard | Garbled | HungUp | Called | Announced | Ended | Tick


@dataclasses.dataclass(frozen=True)
class Dial:
    """Call a peer, after a delay in seconds."""

    task: Task
    delay: float


@dataclasses.dataclass(frozen=True)
class Close:
    """Close the connection to a peer."""

    task: Task


@dataclasses.dataclass(frozen=True)
class Publish:
    """Tell all who watch this task how it is; ``beat``: only how far it is, and that it lives."""

    beat: bool = False


@dataclasses.dataclass(frozen=True)
class Answer:
    """Tell a caller how this task is; ``keep``: and go on telling it."""

    caller: int
    keep: bool


@dataclasses.dataclass(frozen=True)
class Log:
    """Write to the log."""

    level: int
    text: str


@dataclasses.dataclass(frozen=True)
class Lose:
    """A peer is lost: this task cannot go on."""

    task: Task
    reason: str


Action = Dial | Close | Publish | Answer | Log | Lose
