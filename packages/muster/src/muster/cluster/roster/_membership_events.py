"""The records, events and actions of `Membership`."""

import dataclasses
import enum
import functools
from typing import TypeAlias

from muster.cluster._cluster_spec import Task


class MemberPhase(enum.StrEnum):
    """The activity of a worker in an elastic job."""

    STARTING = "starting"  # it has no state yet, and cannot take a step
    FOUNDING = "founding"  # it waits for the first group
    READY = "ready"  # it waits to be let into a group that trains
    IN = "in"
    HALTING = "halting"  # it is to leave the step under way
    HALTED = "halted"
    LEFT = "left"  # its program has come to its end


@dataclasses.dataclass(frozen=True, order=True)
class Member:
    """A process of a job.

    Args:
        task: Its task.
        run: What distinguishes it from other processes of this task.
    """

    task: Task = dataclasses.field(compare=True)
    run: str = ""

    def __str__(self) -> str:
        return str(self.task)

    def __hash__(self) -> int:  # sets of members are made for every event
        return hash(self.run) ^ self.task.index


@dataclasses.dataclass(frozen=True)
class Group:
    """The workers that take steps together.

    Groups are compared by their epochs, which costs the same with any number of members.

    Args:
        epoch: Its number, which no other group has. Later groups have higher ones.
        members: The workers, those that came first at the beginning.
        after: The epoch of the last established group that its leader knew of; 0 for none.
    """

    epoch: int
    members: tuple[Member, ...] = dataclasses.field(compare=False)
    after: int = dataclasses.field(default=0, compare=False)

    @functools.cached_property
    def all(self) -> frozenset[Member]:
        """Give the members as a set."""
        return frozenset(self.members)


@dataclasses.dataclass(frozen=True)
class GroupRecord:
    """The group, the activity and the connections of a worker, which it publishes to all others.

    Args:
        phase: What it does.
        group: The group that it has entered last; None for none yet.
        base: The last group of which it has met all members; None for none yet.
        sees: The workers that it is connected to.
        place: Where in its program others can join it: the number of the loop or call, from 1; 0 for nowhere.
    """

    phase: MemberPhase = MemberPhase.STARTING
    group: Group | None = None
    base: Group | None = None
    sees: tuple[Member, ...] = ()
    place: int = 0

    @functools.cached_property
    def seen(self) -> frozenset[Member]:
        """Give those that it is connected to as a set, which is made when somebody asks for it."""
        return frozenset(self.sees)


@dataclasses.dataclass(frozen=True)
class MemberSeen:
    """A worker is there, and has published a record."""

    member: Member
    record: GroupRecord


@dataclasses.dataclass(frozen=True)
class MemberGone:
    """A worker is not there any more.

    Attributes:
        certain: Its process has ended, and is not only silent or cut off.
    """

    member: Member
    certain: bool


@dataclasses.dataclass(frozen=True)
class BecameReady:
    """This worker can take steps from now on.

    Attributes:
        founds: Only in the first group, with those who begin as well.
    """

    founds: bool = False


@dataclasses.dataclass(frozen=True)
class CameLate:
    """There is a group that trains: this worker is not ready any more to found one."""


@dataclasses.dataclass(frozen=True)
class MembersMet:
    """This worker has met all members of a group, and has not taken a step in it yet."""

    group: Group


@dataclasses.dataclass(frozen=True)
class StepLeft:
    """This worker is not in the middle of a step, or has left it."""


@dataclasses.dataclass(frozen=True)
class LinkBroken:
    """A connection to a member of the group has broken in the middle of a step.

    Attributes:
        epoch: That of the group.
    """

    epoch: int


@dataclasses.dataclass(frozen=True)
class TakesIn:
    """This worker is in a loop that others can join, or has left it.

    Attributes:
        now: Whether it is.
    """

    now: bool


@dataclasses.dataclass(frozen=True)
class CameTo:
    """This worker has come to where others can join it, or has left that.

    Attributes:
        place: As in `GroupRecord`.
    """

    place: int


@dataclasses.dataclass(frozen=True)
class ProgramEnded:
    """This worker takes no more steps."""


@dataclasses.dataclass(frozen=True)
class TimePassed:
    """Nothing but time has passed."""


GroupEvent: TypeAlias = (
    MemberSeen
    | MemberGone
    | BecameReady
    | CameLate
    | MembersMet
    | StepLeft
    | LinkBroken
    | TakesIn
    | CameTo
    | ProgramEnded
    | TimePassed
)


@dataclasses.dataclass(frozen=True)
class PublishRecord:
    """Tell all others."""

    record: GroupRecord


@dataclasses.dataclass(frozen=True)
class LeaveStep:
    """Leave the step that is under way, as soon as can be, and report it by `StepLeft`."""

    reason: str


@dataclasses.dataclass(frozen=True)
class EnterGroup:
    """Take steps with these workers from now on."""

    group: Group


@dataclasses.dataclass(frozen=True)
class GiveUp:
    """This worker cannot go on.

    Attributes:
        reason: Why.
        has_newest: Whether nobody has gone on without it, so that its state may be saved.
        others_are_done: Whether the others have come to the end of their programs.
    """

    reason: str
    has_newest: bool = False
    others_are_done: bool = False


GroupAction: TypeAlias = PublishRecord | LeaveStep | EnterGroup | GiveUp
