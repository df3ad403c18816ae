"""The roster's state machine: turns events into actions, without sockets, clocks or threads.

Each task connects to every other training task at its address, and judges it by what answers there. Callers
only get the status of this task. So a stray caller can do no harm, and a process that claims to be a task,
but is not the one that answers at that task's address, learns it from every task that it connects to.
"""

import dataclasses
import enum
import logging
import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import get_args

from muster._errors import MismatchError, PeerLostError, RosterError, StrayPeerError
from muster._event_log import EventLog
from muster._text import printable_line
from muster.cluster._cluster_spec import Task, TaskType
from muster.cluster.roster import _roster_events as events
from muster.cluster.roster._membership_events import (
    Group,
    GroupRecord,
    Member,
    MemberPhase,
)
from muster.cluster.roster._roster_messages import Progress, RosterHello, Status, TaskState

# The pause before another attempt to connect to a peer, in seconds.
REDIAL_SECS = 0.2
# How long to wait for the first message on a connection before a new one is made, in seconds.
SILENT_SECS = 5.0
# How long a connection that the network has broken may take to be made again, in seconds.
RECONNECT_SECS = 3.0
# How long something else may answer at a peer's address, as a job that is just ending does, in seconds.
STRAY_SECS = 10.0
# How long a task that fails waits for news of a lost peer, which would be the cause, in seconds.
FAIL_SECS = 0.5
# The pause before it is looked whether a peer of an elastic job has come back, in seconds.
REJOIN_SECS = 0.5
# How long a failing task stays, so that those that have not reached it yet learn why, in seconds.
LINGER_SECS = 2.0
# What a task announces when its program has come to its end.
ENDING = "end"
# The number of strangers that are logged, so that they cannot fill the log.
_MAX_STRANGERS = 100


class _Phase(enum.Enum):
    DIALING = enum.auto()
    CONNECTED = enum.auto()  # but nothing was heard yet
    REACHED = enum.auto()
    BROKEN = enum.auto()  # it was reached, and its connection is being made again
    LEFT = enum.auto()


@dataclasses.dataclass
class _Peer:
    task: Task
    address: str
    phase: _Phase = _Phase.DIALING
    since: float = 0.0  # when the phase began
    heard: float = 0.0
    status: Status | None = None
    trouble: str = "it has not answered yet"  # why it is not there
    stray: str = ""  # what answers instead of it
    stray_since: float = 0.0
    mismatch: str = ""  # how it does not fit
    mismatch_since: float = 0.0

    def __str__(self) -> str:
        return f"{self.task} at {self.address}"

    @property
    def ended(self) -> bool:
        """It has reported that it is done or has failed."""
        return self.status is not None and self.status.state in (TaskState.DONE, TaskState.FAILED)


@dataclasses.dataclass(frozen=True)
class _Failing:
    """This task fails, unless a peer turns out to be lost, which would be the cause."""

    at: float
    error: str
    blamed: Task | None


class Watch:
    """Tracks the other tasks of the job: which have been reached, which do not fit, and which are lost.

    Args:
        own: The status of this task at the start.
        peers: The addresses of the other training tasks.
        heartbeat_secs: How long a peer that was reached may be silent, in seconds.
        elastic: Whether the job goes on without a peer that is lost, which may come back as another process.

    Attributes:
        own: The status of this task.
        lost: The peer that is lost, if there is one.
        log: What happened.
    """

    def __init__(
        self, own: Status, peers: Mapping[Task, str], heartbeat_secs: float, elastic: bool = False
    ) -> None:
        made = (own, peers, heartbeat_secs, *((elastic,) if elastic else ()))
        self.log: EventLog[events.Event, events.Action] = EventLog("Watch", made, recurring=_recurring)
        self.own = own
        self.lost: events.Lose | None = None
        self._peers = {task: _Peer(task, address) for task, address in peers.items()}
        self._heartbeat_secs = heartbeat_secs
        self._elastic = elastic
        self._failing: _Failing | None = None
        self._strangers: set[str] = set()

    @property
    def wake_at(self) -> float:
        """The latest time of the next `Tick`; infinity if there is no hurry."""
        return math.inf if self._failing is None or self.ended else self._failing.at

    @property
    def ended(self) -> bool:
        """This task has reported that it is done or has failed."""
        return self.own.state in (TaskState.DONE, TaskState.FAILED)

    def statuses(self) -> dict[Task, Status]:
        """Return the last known status of each task, including this one."""
        reached = {task: peer.status for task, peer in self._peers.items() if peer.status is not None}
        return {self.own.task: self.own, **reached}

    def members(self) -> dict[Member, GroupRecord]:
        """Return the peers of an elastic job that are there, and what they say about their group."""
        found = {}
        for task, peer in self._peers.items():
            status = peer.status
            if peer.phase not in (_Phase.REACHED, _Phase.BROKEN) or status is None or peer.ended:
                continue
            if status.membership is not None and status.reached.get(str(self.own.task)) == self.own.run:
                found[Member(task, status.run)] = status.membership
        return found

    def missing_peers(self) -> dict[Task, str]:
        """Return the peers that this task has not reached, or that have not reached it, and why."""
        missing = {}
        for task, peer in self._peers.items():
            if peer.status is None:
                missing[task] = f"{peer} ({peer.stray or peer.trouble})"
            elif peer.status.reached.get(str(self.own.task)) != self.own.run:
                missing[task] = f"{peer} (it has not reached this task yet)"
        return missing

    def missing_values(self, key: str, tasks: Collection[Task]) -> dict[Task, str]:
        """Return those of the given peers that have not announced a value, with what they are doing."""
        missing = {}
        for task in tasks:
            peer = self._peers[task]
            if peer.status is None:
                missing[task] = f"{peer} ({peer.stray or peer.trouble})"
            elif key not in peer.status.announcements:
                waits_for = peer.status.progress.waits_for
                doing = f"waiting for {waits_for}" if waits_for else peer.status.state
                missing[task] = f"{peer} ({doing}; it has not announced {key!r})"
        return missing

    def hopeless(self, missing: Collection[Task], now: float) -> RosterError | None:
        """Return the error that waiting for these peers must end in, or None while it may succeed."""
        if self.lost is not None:
            return PeerLostError(self.lost.why)
        for task in missing:
            peer = self._peers[task]
            if peer.mismatch and now - peer.mismatch_since >= LINGER_SECS:
                return MismatchError(peer.mismatch)
            if peer.stray and now - peer.stray_since >= STRAY_SECS:
                return StrayPeerError(f"What answers is not {peer}: {peer.stray}.")
            if peer.status is not None and peer.status.state == TaskState.DONE:
                return PeerLostError(f"{peer} has ended already, and does not take part any more.")
        return None

    def start(self) -> list[events.Action]:
        """Return the first actions."""
        return [events.Dial(task, 0.0) for task in self._peers]

    def handle(self, came: Sequence[events.Event], now: float) -> list[events.Action]:
        """Take the events that have come, in their order; see `muster._event_log.StateMachine`."""
        return self.log.handle(self._handle, came, now)

    def _handle(self, came: Sequence[events.Event], now: float) -> list[events.Action]:
        return [action for event in came for action in self._take(event, now)]

    def _take(self, event: events.Event, now: float) -> list[events.Action]:
        match event:
            case events.Tick(progress):
                return self._tick(progress, now)
            case events.Heard(task, news):
                if isinstance(news, Status):
                    return self._heard(self._peers[task], news, now)
                return self._beat(self._peers[task], news, now)
            case events.Dialed(task):
                peer = self._peers[task]
                if peer.phase != _Phase.BROKEN:
                    peer.phase, peer.since = _Phase.CONNECTED, now
                peer.trouble = "something accepts connections there, but does not answer"
                return []
            case events.DialFailed(task, why, refused):
                peer = self._peers[task]
                if peer.phase == _Phase.BROKEN and refused:
                    peer.phase = _Phase.LEFT
                    return self._lose(task, f"{peer} has ended without a word ({why}).", certain=True)
                peer.trouble, peer.stray = why, ""
                return [events.Dial(task, REDIAL_SECS)]
            case events.Garbled(task, why):
                peer = self._peers[task]
                if peer.phase == _Phase.REACHED:
                    return self._lose(task, f"{peer} broke off: {why}.")
                return self._stray(peer, why, now)
            case events.HungUp(task, why, broken):
                return self._hung_up(self._peers[task], why, broken, now)
            case events.Called(caller, origin, hello):
                return self._called(caller, origin, hello)
            case events.Announced(key, value):
                self.own = dataclasses.replace(self.own, announcements={**self.own.announcements, key: value})
                return [events.Publish()]
            case events.Grouped(record):
                self.own = dataclasses.replace(self.own, membership=record)
                return [events.Publish()]
            case events.OwnTaskEnded(error, blamed):
                if self.ended:
                    return []
                if error is None or not self._peers or self._elastic:
                    return self._end(error)
                grace = LINGER_SECS if self.missing_peers() else FAIL_SECS
                self._failing = self._failing or _Failing(now + grace, error, blamed)
                return []

    def _tick(self, progress: Progress, now: float) -> list[events.Action]:
        actions: list[events.Action] = []
        if not self.ended:
            self.own = dataclasses.replace(self.own, progress=progress)
        for task, peer in self._peers.items():
            if peer.phase == _Phase.REACHED:
                silent = now - peer.heard
                if silent > self._heartbeat_secs and not peer.ended:
                    reason = f"{peer} stands still: it has not answered for {silent:.0f} s."
                    actions += self._lose(task, reason)
            elif peer.phase == _Phase.BROKEN and now - peer.since > RECONNECT_SECS:
                reason = f"{peer} is cut off: its connection cannot be made again ({peer.trouble})."
                actions += [events.Close(task), *self._lose(task, reason)]
            elif peer.phase == _Phase.CONNECTED and now - peer.since > SILENT_SECS:
                peer.phase = _Phase.DIALING
                actions += [events.Close(task), events.Dial(task, 0.0)]
        if self._failing is not None and now >= self._failing.at and not self.ended:
            return actions + self._end(self._failing.error, self._failing.blamed)
        return [*actions, events.Publish(beat=True)]

    def _heard(self, peer: _Peer, status: Status, now: float) -> list[events.Action]:
        own, reached = self.own, peer.phase in (_Phase.REACHED, _Phase.BROKEN)
        stray = _stranger(own, peer, status)
        if not reached and status.state == TaskState.FAILED and status.blamed is not None:
            stray = "it is just ending, because it lost a task of an earlier run"
        if not reached and self._elastic and status.state in (TaskState.DONE, TaskState.FAILED):
            stray = "it is just ending"
        if stray:
            return self._stray(peer, stray, now)
        if not reached:
            mismatch = _mismatch(own, peer, status)
            if mismatch:
                return self._mismatched(peer, mismatch, now)
        peer.phase, peer.heard, peer.status = _Phase.REACHED, now, status
        peer.stray = peer.mismatch = ""
        actions: list[events.Action] = []
        if not reached:
            self.own = dataclasses.replace(own, reached={**own.reached, str(peer.task): status.run})
            actions = [
                events.Log(logging.INFO, f"Reached {peer} (process {status.pid} on {status.host})."),
                events.Publish(),
            ]
        if status.state == TaskState.FAILED:
            actions += self._failed(peer, status)
        elif status.state == TaskState.DONE and self._elastic:
            actions += self._leave(peer, f"{peer} has ended.", certain=True)
        return actions

    def _mismatched(self, peer: _Peer, why: str, now: float) -> list[events.Action]:
        peer.phase, peer.trouble = _Phase.DIALING, "it does not fit this task"
        actions: list[events.Action] = [events.Close(peer.task), events.Dial(peer.task, REDIAL_SECS)]
        if peer.mismatch != why:
            peer.mismatch, peer.mismatch_since = why, now
            actions.insert(0, events.Log(logging.ERROR, why))
        return actions

    def _beat(self, peer: _Peer, progress: Progress, now: float) -> list[events.Action]:
        if peer.status is None:
            return self._stray(peer, "it does not say who it is", now)
        peer.heard = now
        peer.status = dataclasses.replace(peer.status, progress=progress)
        return []

    def _failed(self, peer: _Peer, status: Status) -> list[events.Action]:
        if self._elastic:
            return self._leave(peer, f"{peer} failed: {status.error}", certain=True)
        if self._failing is not None and status.blamed in (None, self.own.task):
            return []  # both fail, each for its own reason
        if status.blamed is None:
            return self._lose(peer.task, f"{peer} failed: {status.error}")
        if status.blamed == self.own.task and ENDING in self.own.announcements:
            # Not lost: its program has come to its end, and that one's has not.
            return self._lose(peer.task, status.error, culprit=self.own.task)
        if status.blamed == self.own.task:
            reason = f"{peer} has ended, because it lost this task: {status.error}"
            return self._lose(peer.task, reason, culprit=self.own.task)
        return self._lose(status.blamed, status.error)

    def _stray(self, peer: _Peer, why: str, now: float) -> list[events.Action]:
        """Note that something else answers at a peer's address."""
        if peer.phase in (_Phase.REACHED, _Phase.BROKEN):
            reason = f"{peer} is another now: {why}."
            return [events.Close(peer.task), *self._lose(peer.task, reason, certain=True)]
        actions: list[events.Action] = [events.Close(peer.task), events.Dial(peer.task, REDIAL_SECS)]
        if not peer.stray:
            peer.stray_since = now
            actions.insert(0, events.Log(logging.WARNING, f"What answers is not {peer}: {why}."))
        peer.phase, peer.stray = _Phase.DIALING, why
        return actions

    def _hung_up(self, peer: _Peer, why: str, broken: bool, now: float) -> list[events.Action]:
        if peer.phase in (_Phase.DIALING, _Phase.CONNECTED):
            peer.phase = _Phase.DIALING
            peer.trouble = f"something accepts connections there, and breaks them off ({why})"
            return [events.Dial(peer.task, REDIAL_SECS)]
        if peer.ended:
            peer.phase = _Phase.LEFT
            return []
        if peer.phase == _Phase.REACHED and broken:
            peer.phase, peer.since, peer.trouble = _Phase.BROKEN, now, why
            text = f"The connection to {peer} broke ({why}); it is made again."
            return [events.Log(logging.WARNING, text), events.Dial(peer.task, 0.0)]
        if peer.phase == _Phase.BROKEN and broken:
            peer.trouble = why
            return [events.Dial(peer.task, REDIAL_SECS)]
        peer.phase = _Phase.LEFT
        return self._lose(peer.task, f"{peer} has ended without a word ({why}).", certain=True)

    def _called(self, caller: int, origin: str, hello: RosterHello) -> list[events.Action]:
        who = hello.caller
        if not hello.watch or who is None:
            return [events.Answer(caller, keep=False, stacks=hello.stacks)]
        problem = ""
        if who.job != self.own.job:
            problem = f"this is {self.own.task} of job {self.own.job}"
        elif who.task in self.own.training and not self._peers:
            problem = (
                f"this is {self.own.task}, which meets no other task: it does not train in step with them. "
                "Give all tasks of the job the same strategy"
            )
        elif who.task not in self._peers:
            problem = f"the cluster has {_names(self.own.training)}, and this is {self.own.task}"
        elif self.own.reached.get(str(who.task), who.run) != who.run:
            problem = f"{self._peers[who.task]} answers as another process"
        if not problem:
            return [events.Answer(caller, keep=True)]
        actions: list[events.Action] = [events.Answer(caller, keep=False)]
        text = printable_line(
            f"A stray process calls from {origin}: it says that it is {who}, but {problem}."
        )
        if text not in self._strangers and len(self._strangers) < _MAX_STRANGERS:
            self._strangers.add(text)
            actions.append(events.Log(logging.WARNING, text))
        return actions

    def _lose(
        self, task: Task, reason: str, culprit: Task | None = None, *, certain: bool = False
    ) -> list[events.Action]:
        if self.ended:
            return []
        if self._elastic:
            return self._leave(self._peers[task], reason, certain)
        self.lost = events.Lose(task, reason, culprit or task)
        actions: list[events.Action] = []
        if self._failing is not None:
            actions.append(
                events.Log(logging.ERROR, f"{self.own.task} fails, likely for that: {self._failing.error}")
            )
        # The others may notice the end of this task before its cause, so the cause is published.
        return [*actions, *self._end(reason, blamed=self.lost.culprit), self.lost]

    def _leave(self, peer: _Peer, reason: str, certain: bool) -> list[events.Action]:
        """Note that a peer of an elastic job has gone, and look from time to time whether it comes back."""
        status = peer.status
        peer.phase, peer.status, peer.trouble = _Phase.DIALING, None, "it has gone"
        if status is None:
            return [events.Close(peer.task), events.Dial(peer.task, REJOIN_SECS)]
        reached = {task: run for task, run in self.own.reached.items() if task != str(peer.task)}
        self.own = dataclasses.replace(self.own, reached=reached)
        return [
            events.Log(logging.INFO if status.state == TaskState.DONE else logging.WARNING, reason),
            events.Close(peer.task),
            events.Leave(peer.task, reason, status.run, certain),
            events.Publish(),
            events.Dial(peer.task, REJOIN_SECS),
        ]

    def _end(self, error: str | None, blamed: Task | None = None) -> list[events.Action]:
        state = TaskState.DONE if error is None else TaskState.FAILED
        progress = dataclasses.replace(self.own.progress, state=state, waits_for="")
        self.own = dataclasses.replace(self.own, progress=progress, error=error or "", blamed=blamed)
        return [events.Publish()]


def _stranger(own: Status, peer: _Peer, status: Status) -> str:
    """Return why the task at a peer's address is not that peer, or an empty text."""
    if status.job != own.job:
        return (
            f"it is {status}, and this is job {own.job}. Unless MUSTER_JOB_ID says it, a job's id comes from "
            "the cluster in TF_CONFIG: give all tasks the same one, to the letter"
        )
    if status.task != peer.task:
        return f"it is {status}"
    if peer.status is not None and status.run != peer.status.run:
        return f"it is another process than before: {status}"
    if status.reached.get(str(own.task), own.run) != own.run:
        return (
            f"it has reached another process as {own.task}: this task was started twice, or its address "
            "leads elsewhere"
        )
    return ""


def _recurring(event: events.Event) -> tuple[Hashable, None] | None:
    match event:
        case events.Tick():
            return "time", None
        case events.Heard(task, Progress()):
            return task, None
    return None


def _names(tasks: Collection[Task]) -> str:
    return ", ".join(map(str, tasks))


def _mismatch(own: Status, peer: _Peer, status: Status) -> str:
    """Return why two tasks of one job cannot train together, or an empty text."""
    if set(status.training) != set(own.training):
        return (
            f"{peer} is in another cluster: it trains with {_names(status.training)}, and {own.task} with "
            f"{_names(own.training)}. Give all tasks the same cluster in TF_CONFIG."
        )
    names = sorted({*own.versions, *status.versions})
    differing = [name for name in names if own.versions.get(name) != status.versions.get(name)]
    if not differing:
        return ""
    theirs = ", ".join(f"{name} {status.versions.get(name, 'not at all')}" for name in differing)
    ours = ", ".join(f"{name} {own.versions.get(name, 'not at all')}" for name in differing)
    return f"{peer} has {theirs}, and {own.task} has {ours}. Install the same versions everywhere."


# What a log of events of a `Watch` names.
ROSTER_CLASSES: Mapping[str, type] = {
    each.__name__: each
    for each in (
        *(Watch, Task, TaskType, Status, Progress, TaskState, RosterHello),
        *(Group, GroupRecord, Member, MemberPhase),
        *get_args(events.Event),
        *get_args(events.Action),
    )
}
