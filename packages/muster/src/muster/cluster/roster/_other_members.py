"""The other workers of an elastic job that are there, as `Membership` knows them."""

from collections.abc import Sequence

from muster.cluster.roster._membership_events import Group, GroupRecord, Member, MemberPhase

# The phases of which it keeps who is in them.
_KEPT = (MemberPhase.FOUNDING, MemberPhase.READY, MemberPhase.LEFT)


class NamedGroups:
    """The groups that records name, with the number of records that do.

    Attributes:
        by_epoch: The groups.
    """

    def __init__(self) -> None:
        self.by_epoch: dict[int, Group] = {}
        self._counts: dict[int, int] = {}

    def count(self, group: Group) -> int:
        """Return how many records name a group."""
        return self._counts.get(group.epoch, 0)

    def change(self, group: Group | None, by: int) -> None:
        """Count one more record, or one less: by 1, or by -1."""
        if group is None:
            return
        self._counts[group.epoch] = self._counts.get(group.epoch, 0) + by
        if by > 0:
            self.by_epoch[group.epoch] = group
        elif not self._counts[group.epoch]:
            del self._counts[group.epoch], self.by_epoch[group.epoch]


class OtherMembers:
    """Keeps the records of workers, and counts what they say, so that no event takes a look at all of them.

    Attributes:
        records: The records, by worker. Only `put` and `remove` change them.
        entered: The groups that they have entered.
        out: Those of them that members are not in any more, or not yet again.
        bases: The groups of which they have met all members.
        version: Changes with who is there, and who has left.
    """

    def __init__(self) -> None:
        self.records: dict[Member, GroupRecord] = {}
        self.entered, self.out, self.bases = NamedGroups(), NamedGroups(), NamedGroups()
        self.version = 0
        self._in_phase: dict[str, set[Member]] = {phase.value: set() for phase in _KEPT}
        self._missing: dict[int, Sequence[Member]] = {}  # of groups, by epoch
        self._missing_version = 0

    def put(self, member: Member, record: GroupRecord) -> None:
        """Take the record of a worker."""
        old = self.records.get(member)
        self.records[member] = record
        if old is None:
            self.version += 1
            self._count(member, record)
            return
        same = old.phase is record.phase and old.group is record.group and old.base is record.base
        if not same:  # else it says nothing new, but whom it sees
            self._count(member, old, -1)
            self._count(member, record)

    def remove(self, member: Member) -> bool:
        """Forget a worker; return whether it was there."""
        if (old := self.records.pop(member, None)) is None:
            return False
        self.version += 1
        self._count(member, old, -1)
        return True

    def in_phase(self, phase: MemberPhase) -> set[Member]:
        """Return those that found a group, are ready, or have left."""
        return self._in_phase[phase.value]

    def missing(self, group: Group, own: Member) -> Sequence[Member]:
        """Return the members of a group, other than one's own, that are not there or have left."""
        if self._missing_version != self.version:
            self._missing, self._missing_version = {}, self.version
        if group.epoch not in self._missing:
            gone = group.all.difference(self.records, [own]) | self.in_phase(MemberPhase.LEFT)
            self._missing[group.epoch] = [each for each in group.members if each in gone] if gone else ()
        return self._missing[group.epoch]

    def _count(self, member: Member, record: GroupRecord, by: int = 1) -> None:
        """Count what a record says, or by -1 no more."""
        self.entered.change(record.group, by)
        self.bases.change(record.base, by)
        if record.phase is MemberPhase.IN:
            return
        self.out.change(record.group, by)
        if record.phase in _KEPT:
            those = self._in_phase[record.phase.value]
            (those.add if by > 0 else those.discard)(member)
            self.version += record.phase is MemberPhase.LEFT
