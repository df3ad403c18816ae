"""What can happen to the roster of a task, and what it can do about it."""

import dataclasses
from typing import Any

from muster.cluster._task import Task
from muster.cluster.roster._roster_messages import Hello, Progress, Status


@dataclasses.dataclass(frozen=True)
class _OfPeer:
    """Something about a peer."""

    task: Task


@dataclasses.dataclass(frozen=True)
class _Trouble(_OfPeer):
    """Something about a peer that should not be, and why it is."""

    why: str


class Dialed(_OfPeer):
    """There is a connection to a peer."""


class DialFailed(_Trouble):
    """A peer could not be called."""


@dataclasses.dataclass(frozen=True)
class Heard(_OfPeer):
    """A peer said how it is: all of it, or only how far it is."""

    news: Status | Progress


class Garbled(_Trouble):
    """What answers at a peer's address does not speak the protocol; the connection is closed."""


class HungUp(_Trouble):
    """The connection to a peer broke off."""


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
class Dial(_OfPeer):
    """Call a peer, after a delay in seconds."""

    delay: float


class Close(_OfPeer):
    """Close the connection to a peer."""


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


class Lose(_Trouble):
    """A peer is lost: this task cannot go on."""


Action = Dial | Close | Publish | Answer | Log | Lose
