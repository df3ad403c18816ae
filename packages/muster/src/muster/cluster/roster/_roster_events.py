"""The events that the roster's state machine takes, and the actions that it returns."""

import dataclasses
from typing import Any

from muster.cluster._cluster_spec import Task
from muster.cluster.roster._membership_events import GroupRecord
from muster.cluster.roster._roster_messages import Progress, RosterHello, Status


@dataclasses.dataclass(frozen=True)
class _OfPeer:
    """An event or action that concerns a peer."""

    task: Task


@dataclasses.dataclass(frozen=True)
class _Trouble(_OfPeer):
    """A problem with a peer, and its reason."""

    why: str


class Dialed(_OfPeer):
    """A connection to a peer was made."""


@dataclasses.dataclass(frozen=True)
class DialFailed(_Trouble):
    """A connection to a peer could not be made.

    Attributes:
        refused: Its host answers, and nothing listens at its address.
    """

    refused: bool = False


@dataclasses.dataclass(frozen=True)
class Heard(_OfPeer):
    """A peer sent its status, or only its progress."""

    news: Status | Progress


class Garbled(_Trouble):
    """A process that does not speak the protocol answers at a peer's address; the connection is closed."""


@dataclasses.dataclass(frozen=True)
class HungUp(_Trouble):
    """The connection to a peer is gone.

    Attributes:
        broken: The network has broken it, and not the other end.
    """

    broken: bool = False


@dataclasses.dataclass(frozen=True)
class Called:
    """A caller connected to this task, and identified itself."""

    caller: int
    origin: str
    hello: RosterHello


@dataclasses.dataclass(frozen=True)
class Announced:
    """This task sends a value to all others."""

    key: str
    value: Any


@dataclasses.dataclass(frozen=True)
class Grouped:
    """This task tells all others about its group."""

    record: GroupRecord


@dataclasses.dataclass(frozen=True)
class OwnTaskEnded:
    """This task ends, with an error or (None) because it is done.

    Attributes:
        error: The error.
        blamed: The task that kept this one waiting for too long, if that is the error.
    """

    error: str | None
    blamed: Task | None = None


@dataclasses.dataclass(frozen=True)
class Tick:
    """Time has passed; carries the progress of this task."""

    progress: Progress


Event = Dialed | DialFailed | Heard | Garbled | HungUp | Called | Announced | Grouped | OwnTaskEnded | Tick


@dataclasses.dataclass(frozen=True)
class Dial(_OfPeer):
    """Connect to a peer, after a delay in seconds."""

    delay: float


class Close(_OfPeer):
    """Close the connection to a peer."""


@dataclasses.dataclass(frozen=True)
class Publish:
    """Send this task's status to all subscribers, or with ``beat`` only its progress, as a heartbeat."""

    beat: bool = False


@dataclasses.dataclass(frozen=True)
class Answer:
    """Send this task's status to a caller, with ``stacks`` also those of its threads.

    With ``keep`` the caller becomes a subscriber.
    """

    caller: int
    keep: bool
    stacks: bool = False


@dataclasses.dataclass(frozen=True)
class Log:
    """Write to the log."""

    level: int
    text: str


@dataclasses.dataclass(frozen=True)
class Lose(_Trouble):
    """Declare a peer lost: this task cannot go on.

    Attributes:
        culprit: The task that caused it; it may be this one, if the peer has given it up.
    """

    culprit: Task


@dataclasses.dataclass(frozen=True)
class Leave(_Trouble):
    """Note that a peer has gone, of a job that goes on without it.

    Attributes:
        run: The random id of its process.
        certain: Its process has ended, and is not only silent or cut off.
    """

    run: str
    certain: bool


Action = Dial | Close | Publish | Answer | Log | Lose | Leave
