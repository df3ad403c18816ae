"""Agree on the workers of an elastic job: who is in the group that takes the next step.

Workers come and go. Those who train together are a *group*: its members in the order in which they came, and
an epoch, which no other group has. Each worker publishes a `GroupRecord` to all others, as a part of its
status: its group, what it does, and whom it sees. Nothing else is sent. A change takes one round:

1. Whoever misses a member, or sees one halt, halts: it leaves the step that is under way.
2. When all members that are left have halted, the first of them, the *leader*, makes a group of those who all
   see each other, and of workers that have come, and enters it.
3. Whoever has halted enters the newest group that it is in.
4. When all its members have met, a group is *established*, and takes steps. Each step needs all of them.

So a change takes four records from each worker to each other one: that it halts, has halted, has entered the
group, and has met all. If the leader is lost, the next one leads. Epochs differ between leaders: no two
groups have the same. Nobody enters a group whose leader did not know of a later one that is established, so
that of two groups with a common member one takes no step.

A worker whose process has certainly ended is left out by as few as are left. One that is only silent may
still train, cut off from the others. Then those go on who are more than half of the members that have not
ended, or half of them with the first one. So never do two groups train at once.
"""

import dataclasses
import math
import operator
from collections.abc import Container, Iterable, Mapping, Sequence

from muster._event_log import EventLog
from muster.cluster._cluster_spec import Task
from muster.cluster.roster._membership_events import (
    BecameReady,
    CameLate,
    CameTo,
    EnterGroup,
    GiveUp,
    Group,
    GroupAction,
    GroupEvent,
    GroupRecord,
    LeaveStep,
    LinkBroken,
    Member,
    MemberGone,
    MemberPhase,
    MemberSeen,
    MembersMet,
    ProgramEnded,
    PublishRecord,
    StepLeft,
    TakesIn,
    TimePassed,
)
from muster.cluster.roster._other_members import OtherMembers

# How long a leader waits for more workers that come, before it lets in those that are there, in seconds.
ADMIT_SECS = 0.2
# The least time between two changes for workers that come, in seconds.
SETTLE_SECS = 2.0
# How long a leader waits for members that are there, and that not all others see, in seconds: one that was
# frozen or cut off is lost to others until their connections to it are made again, which takes less.
_HEAL_SECS = 3.0
_BY_TASK = operator.attrgetter("task.index", "task.type", "run")


class Membership:
    """Decides about the group of one worker, from what all of them publish.

    Args:
        own: This worker.
        tasks: The tasks of all workers that there may be, in order. That of the first one founds the first
            group.
        minimum: The least number of workers that take a step.
        gather_secs: How long the founder waits for more than the least number of workers.
        patience_secs: How long to wait for workers if too few are left.
        first_epoch: The least epoch of a group that this worker founds: more than those of earlier processes.
        most: The number of workers that a group has at most; others stand by. None for all.

    Attributes:
        record: What this worker publishes.
        log: What happened.
    """

    def __init__(
        self,
        own: Member,
        tasks: tuple[Task, ...],
        minimum: int = 1,
        gather_secs: float = 5.0,
        patience_secs: float = math.inf,
        first_epoch: int = 1,
        most: int | None = None,
    ) -> None:
        self.log: EventLog[GroupEvent, GroupAction] = EventLog(
            "Membership", (own, tasks, minimum, gather_secs, patience_secs, first_epoch, most)
        )
        self.own = own
        self.record = GroupRecord()
        self._tasks = tasks
        self._places = {task: place for place, task in enumerate(tasks)}
        self._minimum = minimum
        self._gather_secs = gather_secs
        self._patience_secs = patience_secs
        self._first_epoch = first_epoch
        self._most = len(tasks) if most is None else min(most, len(tasks))
        self._others = OtherMembers()
        self._bases: Sequence[Group] = ()  # the established groups that are known, the newest first
        self._runs: dict[Task, Member] = {}  # the process of each task that was seen last
        self._ended: set[Member] = set()  # those whose process has certainly ended
        self._came_as = MemberPhase.STARTING
        self._confirmed: Group | None = None  # the last one that all members are known to have met in
        self._waits_since = math.inf  # since when it could found a group, or be in one
        self._admits_at = math.inf
        self._entered_at = -math.inf
        self._heard_at = -math.inf  # when the last events came
        self._broken = self._takes_in = False
        self._some_left = False  # whether one of them has come to the end of its program
        self._met_others = False  # whether it has seen that a group was established
        self._gave_up = False

    @property
    def wake_at(self) -> float:
        """The time by which it wants to hear from the clock."""
        times = [self._admits_at]
        if self.record.phase in (MemberPhase.FOUNDING, MemberPhase.READY, MemberPhase.HALTED):
            times += [
                self._waits_since + each for each in (_HEAL_SECS, self._gather_secs, self._patience_secs)
            ]
        return min((each for each in times if each > self._heard_at), default=math.inf)

    @property
    def others_wait(self) -> bool:
        """Whether workers have come that this one lets in, as soon as it takes others in."""
        return self._admits_at < math.inf

    @property
    def leads(self) -> bool:
        """True if this is the first of those who are left of the group that trained last."""
        base = self._base()
        return base is not None and self._leader(base) == self.own

    def present(self) -> dict[Member, GroupRecord]:
        """Return the others that are there, and what they have published."""
        return dict(self._others.records)

    def start(self) -> Sequence[GroupAction]:
        """Return the first actions."""
        return [PublishRecord(self.record)]

    def handle(self, events: Sequence[GroupEvent], now: float) -> list[GroupAction]:
        """Take the events that have come, in their order; see `muster._event_log.StateMachine`."""
        return self.log.handle(self._handle, events, now)

    def _handle(self, events: Sequence[GroupEvent], now: float) -> list[GroupAction]:
        before, self._heard_at = self.record, now
        knew = self._others.version
        for event in events:
            self._take(event, now)
        if self._others.version != knew:
            self._set(sees=tuple(sorted(self._others.records, key=_BY_TASK)))
        bases = dict(self._others.bases.by_epoch)
        if self.record.base is not None:
            bases[self.record.base.epoch] = self.record.base
        self._bases = [bases[epoch] for epoch in sorted(bases, reverse=True)]
        actions = self._advance(now)
        if self.record != before:
            actions.insert(0, PublishRecord(self.record))
        return actions

    def _take(self, event: GroupEvent, now: float) -> None:
        phase = self.record.phase
        match event:
            case MemberSeen(member, record):
                if member not in self._others.records:
                    other = self._runs.get(member.task, member)
                    if other != member and self._others.remove(other):
                        self._ended.add(other)  # another process has its address
                    self._runs[member.task] = member
                    self._ended.discard(member)
                self._others.put(member, record)
                self._some_left |= record.phase is MemberPhase.LEFT and record.base is not None
            case MemberGone(member, certain):
                # While it was out of sight it may have gone on with others, whom this worker does not know.
                was_there = self._others.remove(member)
                if certain and was_there:
                    self._ended.add(member)
            case BecameReady(founds) if phase is MemberPhase.STARTING:
                self._came_as = MemberPhase.FOUNDING if founds else MemberPhase.READY
                self._set(phase=self._came_as)
                self._waits_since = now
            case CameLate() if phase is MemberPhase.FOUNDING:
                self._set(phase=MemberPhase.STARTING, group=None)
            case MembersMet(group) if self.record.group == group:
                self._set(base=group)
            case StepLeft() if phase is MemberPhase.HALTING:
                # Without a state it waits as it did before.
                self._set(phase=self._came_as if self.record.base is None else MemberPhase.HALTED)
                self._waits_since = now
            case LinkBroken(epoch) if self.record.group is not None and self.record.group.epoch == epoch:
                self._broken = phase is MemberPhase.IN
            case TakesIn(takes):
                self._takes_in = takes
            case CameTo(place):
                self._set(place=place)
            case ProgramEnded():
                self._set(phase=MemberPhase.LEFT)

    def _set(self, **changes: object) -> None:
        self.record = dataclasses.replace(self.record, **changes)  # type: ignore[arg-type]

    def _advance(self, now: float) -> list[GroupAction]:
        phase, base = self.record.phase, self.record.base
        self._met_others |= self._base() is not None
        if base is not None and self._others.bases.count(base) == len(base.members) - 1:
            self._confirmed = base
        if self._gave_up or phase in (MemberPhase.STARTING, MemberPhase.LEFT):
            return []
        newer = [each for each in self._bases if each.epoch > self._base_epoch]
        if self.record.base is not None and any(self.own not in each.all for each in newer):
            self._gave_up = True
            return [GiveUp("The other workers have gone on without this one, which not all of them saw.")]
        if phase is MemberPhase.IN:
            if not (reason := self._reason_to_halt(now)):
                return []
            self._set(phase=MemberPhase.HALTING)
            return [LeaveStep(reason)]
        if phase is MemberPhase.HALTING:
            return []
        if (
            phase is MemberPhase.READY
            and self._base() is None
            and self._others.in_phase(MemberPhase.FOUNDING)
        ):
            self._gave_up = True
            return [GiveUp("The workers that it was to join have ended, and the job begins anew.")]
        if phase is MemberPhase.READY and self._met_others and self._nobody_trains:
            self._gave_up = True
            reason = "The workers that it was to join have ended."
            return [GiveUp(reason, others_are_done=self._some_left)]
        newest = next((each for each in self._open_groups() if not self._missing(each)), None)
        entered = newest or (self._founded(now) if self._base() is None else self._led(now))
        if entered is not None:
            return [self._enter(entered, now)]
        stands_by = phase is MemberPhase.READY and self._base() is not None
        if now >= self._waits_since + self._patience_secs and not stands_by:
            self._gave_up = True
            reason = f"It has waited {now - self._waits_since:.0f} s for other workers."
            return [GiveUp(reason, has_newest=self.leads)]
        return []

    @property
    def _nobody_trains(self) -> bool:
        base = self._base()
        return base is None or not any(
            member in self._others.records and not self._has_ended(member) for member in base.members
        )

    @property
    def _base_epoch(self) -> int:
        return self.record.base.epoch if self.record.base is not None else 0

    def _base(self) -> Group | None:
        """Return the newest established group, in which all that are left have the same state."""
        return next(iter(self._bases), None)

    def _open_groups(self) -> list[Group]:
        """Return the groups that this worker may enter, the newest first."""
        entered = 0 if self.record.group is None else self.record.group.epoch
        found = [
            each
            for each in self._others.entered.by_epoch.values()
            if each.epoch > entered and each.after >= self._base_epoch and self.own in each.all
        ]
        return sorted(found, key=lambda each: -each.epoch)

    def _missing(self, group: Group) -> Sequence[Member]:
        """Return the members of a group that are not there, or have ended."""
        return self._others.missing(group, self.own)

    def _reason_to_halt(self, now: float) -> str:
        group = self.record.group
        if group is None:
            return ""
        if missing := self._missing(group):
            return f"{_names(missing)} is not there any more."
        if self._broken:
            return "A connection has broken."
        if halted := self._halted(group):
            return f"{_names(halted)} has halted."
        if self._open_groups():
            return "There is a newer group."
        leads = self.record.base == group and self._leader(group) == self.own
        joining = self._joining(group.members) if leads else []
        if not joining:
            self._admits_at = math.inf
            return ""
        if self._admits_at == math.inf:
            self._admits_at = max(now + ADMIT_SECS, self._entered_at + SETTLE_SECS)
        if not self._takes_in or now < self._admits_at:
            return ""
        return f"{_names(joining)} has come."

    def _halted(self, group: Group) -> Sequence[Member]:
        """Return the members of a group that are not in it any more, or have entered a later one."""
        others = self._others
        if not others.out.count(group) and max(others.entered.by_epoch, default=0) <= group.epoch:
            return ()
        return [
            member
            for member, record in others.records.items()
            if (entered := record.group) is not None
            and (
                entered.epoch > group.epoch
                or (entered.epoch == group.epoch and record.phase is not MemberPhase.IN)
            )
            and member in group.all
        ]

    def _leader(self, group: Group) -> Member | None:
        missing = set(self._missing(group))
        return next((member for member in group.members if member not in missing), None)

    def _joining(self, members: Sequence[Member], phase: MemberPhase = MemberPhase.READY) -> Sequence[Member]:
        """Return the workers in a phase that all members see, in the order of their tasks."""
        ready = sorted(self._others.in_phase(phase), key=lambda each: self._places[each.task])
        return self._connected(members, ready)[len(members) :] if ready else ()

    def _connected(self, members: Sequence[Member], others: Iterable[Member]) -> list[Member]:
        """Return some members, and those of the others that are connected to all before them.

        Two are connected if both say so. Sets are compared with sets: that does not compute hashes again, so
        that it takes little time with a thousand workers.
        """
        chosen, seen = list(members), [self._seen_by(each) for each in members]
        tasks, those = {each.task for each in members}, set(members)
        for each in others:
            if len(chosen) == self._most:
                break
            sees, only = self._seen_by(each), {each}
            if each.task not in tasks and those <= sees and all(only <= one for one in seen):
                chosen.append(each)
                seen.append(sees)
                tasks.add(each.task)
                those.add(each)
        return chosen

    def _seen_by(self, member: Member) -> frozenset[Member]:
        if member == self.own:
            return frozenset(self._others.records)
        record = self._others.records.get(member)
        return frozenset() if record is None else record.seen

    def _founded(self, now: float) -> Group | None:
        """Return the first group, if this is the worker that founds it, and it is time."""
        phase = self.record.phase
        if self.own.task != self._tasks[0] or self._met_others or phase is not MemberPhase.FOUNDING:
            return None
        joining = self._joining([self.own], MemberPhase.FOUNDING)
        before = self.record.group  # in which not all have met, as far as this worker knows
        if before is not None and not self._may_leave_out(before, {self.own, *joining}):
            return None
        count = 1 + len(joining)
        is_late = now >= self._waits_since + self._gather_secs
        if count == self._most or (is_late and count >= self._minimum):
            return Group(self._next_epoch(), (self.own, *joining))
        return None

    def _led(self, now: float) -> Group | None:
        """Return the group after a change, if this worker is the one that makes it, and it can."""
        base = self._base()
        if base is None or self.own not in base.all or self._leader(base) != self.own:
            return None
        missing = set(self._missing(base))
        left = [member for member in base.members if member not in missing and member != self.own]
        if any(self._others.records[each].phase is not MemberPhase.HALTED for each in left):
            return None
        chosen = self._connected([self.own], left)
        if len(chosen) <= len(left) and now < self._waits_since + _HEAL_SECS:
            return None  # one that is there is about to see the others again, or they to see it
        members = (*chosen, *(self._joining(chosen) if self._takes_in else ()))
        # Somebody may not know yet that the newest group is established, and go by the one before.
        those = frozenset(chosen)
        may_go = all(self._may_leave_out(each, those) for each in (base, self._confirmed or base))
        if not may_go or len(members) < self._minimum:
            return None
        return Group(self._next_epoch(), members, base.epoch)

    def _may_leave_out(self, group: Group, chosen: Container[Member]) -> bool:
        """Return whether those of a group that are not chosen cannot go on by themselves."""
        left = [member for member in group.members if member in chosen or not self._has_ended(member)]
        count = sum(member in chosen for member in left)
        # Two halves that both may go on would know of the same ones that have ended.
        return 2 * count > len(left) or (2 * count == len(left) and bool(left) and left[0] in chosen)

    def _has_ended(self, member: Member) -> bool:
        """Return whether a process has certainly ended, or its program has."""
        record = self._others.records.get(member)
        return member in self._ended or (record is not None and record.phase is MemberPhase.LEFT)

    def _next_epoch(self) -> int:
        """Return an epoch above all that are known here, which nobody has chosen or will."""
        known = [*self._others.entered.by_epoch]
        if self.record.group is not None:
            known.append(self.record.group.epoch)
        count, place = len(self._tasks), self._tasks.index(self.own.task)
        least = max([*known, self._first_epoch - 1]) + 1
        epoch = least + (place - least) % count
        self._first_epoch = epoch + 1  # it may forget this group, if it has come late
        return epoch

    def _enter(self, group: Group, now: float) -> GroupAction:
        self._set(group=group, phase=MemberPhase.IN)
        self._broken = False
        self._admits_at, self._entered_at = math.inf, now
        return EnterGroup(group)


def _names(members: Sequence[Member]) -> str:
    return ", ".join(map(str, members))


# What a log of events of a `Membership` names.
MEMBERSHIP_CLASSES: Mapping[str, type] = {
    each.__name__: each
    for each in (
        *(Membership, Member, MemberPhase, Group, GroupRecord, Task),
        *(
            MemberSeen,
            MemberGone,
            BecameReady,
            CameLate,
            MembersMet,
            StepLeft,
            LinkBroken,
            TakesIn,
            CameTo,
            ProgramEnded,
            TimePassed,
        ),
        *(PublishRecord, LeaveStep, EnterGroup, GiveUp),
    )
}
