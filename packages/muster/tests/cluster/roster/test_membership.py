"""Tests of the machine that agrees on the workers of an elastic job."""

import dataclasses
import random

import pytest
from membership_world import World

from muster._event_log import replay
from muster.cluster import Task
from muster.cluster.roster._membership import MEMBERSHIP_CLASSES, Membership
from muster.cluster.roster._membership_events import (
    BecameReady,
    CameLate,
    CameTo,
    EnterGroup,
    GiveUp,
    Group,
    GroupRecord,
    LeaveStep,
    LinkBroken,
    Member,
    MemberGone,
    MemberPhase,
    MemberSeen,
    MembersMet,
    ProgramEnded,
    StepLeft,
    TakesIn,
    TimePassed,
)

A, B, C = (Member(Task("worker", index), "r") for index in range(3))
TASKS = tuple(each.task for each in (A, B, C))


def test_the_first_worker_founds_the_group_when_all_are_there() -> None:
    founder = Membership(A, TASKS)
    founder.handle([BecameReady(founds=True)], 0.0)
    assert not entered(founder.handle([MemberSeen(B, FOUNDING)], 0.1))
    assert entered(founder.handle([MemberSeen(C, FOUNDING)], 0.2)) == (A, B, C)


def test_the_first_worker_goes_on_without_those_who_do_not_come() -> None:
    founder = Membership(A, TASKS, minimum=2, gather_secs=5.0)
    founder.handle([BecameReady(founds=True), MemberSeen(B, FOUNDING)], 0.0)
    assert not entered(founder.handle([TimePassed()], 4.9))
    assert entered(founder.handle([TimePassed()], 5.0)) == (A, B)


def test_more_workers_than_virtual_replicas_stand_by() -> None:
    founder = Membership(A, TASKS, most=2)
    founder.handle([BecameReady(founds=True)], 0.0)
    assert entered(founder.handle([MemberSeen(B, FOUNDING), MemberSeen(C, FOUNDING)], 0.1)) == (A, B)


def test_the_first_worker_comes_late_and_does_not_found_a_second_group() -> None:
    late = Membership(A, TASKS, gather_secs=5.0)
    group = Group(3, (B,))
    record = GroupRecord(MemberPhase.IN, group, group, (A,))
    late.handle([BecameReady(founds=True), MemberSeen(B, record)], 0.0)
    assert not entered(late.handle([TimePassed()], 100.0))
    late.handle([MemberGone(B, certain=True)], 101.0)
    assert not entered(late.handle([TimePassed()], 200.0))


@pytest.mark.parametrize("certain", [True, False])
def test_the_second_of_two_goes_on_alone_only_if_the_first_has_ended(certain: bool) -> None:
    second = in_group(B, Group(3, (A, B)))
    (left,) = [each for each in second.handle([MemberGone(A, certain)], 1.0) if isinstance(each, LeaveStep)]
    assert left.reason == "worker 0 is not there any more."
    assert entered(second.handle([StepLeft()], 1.1)) == ((B,) if certain else ())


def test_one_that_was_out_of_sight_before_it_ended_may_have_gone_on_with_others() -> None:
    second = in_group(B, Group(3, (A, B)))
    second.handle([MemberGone(A, certain=False)], 1.0)
    second.handle([MemberGone(A, certain=True)], 2.0)
    assert not entered(second.handle([StepLeft()], 2.1))


def test_the_first_of_two_goes_on_alone() -> None:
    first = in_group(A, Group(3, (A, B)))
    first.handle([MemberGone(B, certain=False)], 1.0)
    assert entered(first.handle([StepLeft()], 1.1)) == (A,)


def test_one_whom_the_others_have_left_out_gives_up() -> None:
    one = in_group(B, Group(3, (A, B, C)))
    without = Group(6, (A, C), 3)
    actions = one.handle([MemberSeen(A, GroupRecord(MemberPhase.IN, without, without, (C,)))], 1.0)
    assert any(isinstance(action, GiveUp) for action in actions)


def test_nobody_enters_a_group_whose_leader_did_not_know_of_a_later_one() -> None:
    one = in_group(C, group := Group(7, (A, B, C), 3))
    halted = GroupRecord(MemberPhase.HALTED, group, group, (B, C))
    one.handle([MemberSeen(A, halted)], 1.0)
    one.handle([StepLeft()], 1.0)
    assert one.record.phase is MemberPhase.HALTED
    old = GroupRecord(MemberPhase.IN, Group(99, (B, C), after=3), None, (C,))
    assert not entered(one.handle([MemberSeen(B, old)], 1.1))
    new = GroupRecord(MemberPhase.IN, Group(100, (B, C), after=7), None, (C,))
    assert entered(one.handle([MemberSeen(B, new)], 1.2)) == (B, C)


def test_the_leader_waits_until_all_have_halted() -> None:
    group = Group(3, (A, B, C))
    leader = in_group(A, group)
    leader.handle([MemberGone(C, certain=True)], 1.0)
    assert not entered(leader.handle([StepLeft()], 1.1))
    halted = GroupRecord(MemberPhase.HALTED, group, group, (A,))
    assert entered(leader.handle([MemberSeen(B, halted)], 1.2)) == (A, B)


def test_a_leader_that_was_frozen_waits_for_those_whose_connections_are_made_again() -> None:
    group = Group(3, (A, B))
    leader = in_group(A, group)
    lost = GroupRecord(MemberPhase.HALTED, group, group, ())  # to B the leader was silent for too long
    assert leaves(leader.handle([MemberSeen(B, lost)], 1.0))
    assert not entered(leader.handle([StepLeft()], 1.1))
    assert leader.wake_at == 4.1
    found = dataclasses.replace(lost, sees=(A,))
    assert entered(leader.handle([MemberSeen(B, found)], 1.6)) == (A, B)


def test_a_leader_leaves_out_who_does_not_find_the_others_again() -> None:
    group = Group(3, (A, B, C))
    leader = in_group(A, group)
    sees_one = GroupRecord(MemberPhase.HALTED, group, group, (A,))  # B and C are cut off from each other
    leader.handle([MemberSeen(B, sees_one), MemberSeen(C, sees_one)], 1.0)
    assert not entered(leader.handle([StepLeft()], 1.1))
    assert not entered(leader.handle([TimePassed()], 4.0))
    assert entered(leader.handle([TimePassed()], 4.1)) == (A, B)


def test_one_that_stands_by_wakes_only_for_what_is_to_come() -> None:
    group = Group(3, (A, B))
    spare = Membership(C, TASKS, gather_secs=5.0, patience_secs=60.0)
    record = GroupRecord(MemberPhase.IN, group, group, (A, B, C))
    spare.handle([MemberSeen(A, record), MemberSeen(B, record)], 0.0)
    spare.handle([BecameReady()], 1.0)
    for now in (1.0, 6.0, 61.0, 500.0):
        spare.handle([TimePassed()], now)
        assert spare.wake_at > now


def test_workers_that_come_together_are_let_in_together_between_steps() -> None:
    leader = in_group(A, Group(3, (A,)))
    ready = GroupRecord(MemberPhase.READY, None, None, (A, B, C))
    leader.handle([TakesIn(True)], 10.0)
    assert not leaves(leader.handle([MemberSeen(B, ready)], 20.0))
    assert not leaves(leader.handle([MemberSeen(C, ready)], 20.1))
    assert leader.wake_at == 20.2
    assert leaves(leader.handle([TimePassed()], 20.2))
    assert entered(leader.handle([StepLeft()], 20.3)) == (A, B, C)


def test_who_has_waited_for_a_while_is_let_in_as_soon_as_the_leader_takes_others_in() -> None:
    leader = in_group(A, Group(3, (A,)))
    assert not leader.others_wait
    leader.handle([MemberSeen(B, GroupRecord(MemberPhase.READY, None, None, (A, B, C)))], 10.0)
    assert leader.others_wait
    assert not leaves(leader.handle([TimePassed()], 19.0))
    assert leader.wake_at > 19.0  # it has no reason to look
    assert leaves(leader.handle([TakesIn(True)], 20.0))
    leader.handle([StepLeft()], 20.1)
    assert not leader.others_wait


def test_those_who_do_not_lead_or_are_full_have_nobody_to_let_in() -> None:
    ready = GroupRecord(MemberPhase.READY, None, None, (A, B, C))
    other = in_group(B, Group(3, (A, B)))
    other.handle([MemberSeen(C, ready)], 10.0)
    assert not other.others_wait
    full = in_group(A, Group(3, (A, B)), most=2)
    full.handle([MemberSeen(C, ready)], 10.0)
    assert not full.others_wait


def test_too_few_wait_and_give_up() -> None:
    one = in_group(A, Group(3, (A, B)), minimum=2, patience_secs=60.0)
    one.handle([MemberGone(B, certain=True)], 1.0)
    assert not entered(one.handle([StepLeft()], 2.0))
    assert one.wake_at <= 62.0
    assert any(isinstance(each, GiveUp) for each in one.handle([TimePassed()], 62.0))


def test_an_old_broken_connection_does_not_break_the_new_group() -> None:
    one = in_group(A, Group(3, (A, B)))
    assert not one.handle([LinkBroken(2)], 1.0)
    assert any(isinstance(each, LeaveStep) for each in one.handle([LinkBroken(3)], 1.0))


FOUNDING = GroupRecord(MemberPhase.FOUNDING, None, None, (A, B, C))


def in_group(
    own: Member, group: Group, minimum: int = 1, patience_secs: float = 1e9, most: int | None = None
) -> Membership:
    """Return the machine of a worker that has met the others of a group, which it sees."""
    machine = Membership(own, TASKS, minimum, 5.0, patience_secs, most=most)
    record = GroupRecord(MemberPhase.IN, group, None, (A, B, C))
    others = [MemberSeen(each, record) for each in group.members if each != own]
    actions = machine.handle([BecameReady(founds=True), *others], 0.0)
    if not others:
        actions = machine.handle([TimePassed()], 5.0)
        group = next(each.group for each in actions if isinstance(each, EnterGroup))
    assert entered(actions) == group.members
    met = dataclasses.replace(record, base=group)
    machine.handle(
        [MembersMet(group), *(MemberSeen(each, met) for each in group.members if each != own)], 0.0
    )
    return machine


def entered(actions: object) -> tuple[Member, ...]:
    """Return the members of the group that is entered; none if none is."""
    assert isinstance(actions, list)
    return next((each.group.members for each in actions if isinstance(each, EnterGroup)), ())


def leaves(actions: object) -> bool:
    """Return whether a worker is to leave its step."""
    assert isinstance(actions, list)
    return any(isinstance(each, LeaveStep) for each in actions)


def history(seed: int, most: int) -> World:
    """Let workers start, end, freeze and be cut off at random; then let all that are left see each other."""
    chance = random.Random(seed)
    events = 12 if most < 100 else 6
    size = chance.randint(1, most) if most <= 6 else most
    minimum = min(size, chance.choice((1, 1, 1, 2)))
    world = World(size, seed, minimum, chance.choice((None, None, max(minimum, size - 2))))
    for index in range(size):
        if index == 0 or chance.random() < 0.7:
            world.start(index)
    for _ in range(events):
        for _ in range(chance.choice((0, 3, 30, 300)) * size // 6):
            world.happen()
        up = list(world.workers.values())
        down = sorted(set(range(size)) - {each.place for each in up})
        few = chance.choice((1, 1, 1 + size // 10))  # a process, or a machine with some
        match chance.choice(("start", "end", "freeze", "part", "split", "join", "give up")):
            case "start" if down:
                for index in chance.sample(down, min(few, len(down))):
                    world.start(index)
            case "end" if len(up) > few:
                for one in chance.sample(up, few):
                    world.end(one)
            case "freeze" if len(up) > 1:
                one = chance.choice(up)
                world.freeze(one, [each for each in up if chance.random() < 0.8])
            case "part" if len(up) > 1:
                one, other = chance.sample(up, 2)
                world.part([one], [other])
            case "split" if len(up) > 1 and size <= 200:
                half = chance.sample(up, chance.randint(1, len(up) - 1))
                world.part(half, [each for each in up if each not in half])
            case "join":
                if cut := [(each, number) for each in up for number in sorted(each.cut)]:
                    one, number = chance.choice(cut)
                    world.join(one, world.workers[number])
            case "give up":
                for one in [each for each in up if each.gave_up]:
                    world.end(one)
    world.heal()
    return world


# The figures of docs/contributing/membership.md: records that a worker sends to each other one.
FOR_THE_FIRST_GROUP, FOR_A_LOSS, FOR_AN_ARRIVAL = 3, 4, 5
FOR_A_GROUP, UNDER_WAY = 4, 6
MOST_GROUPS = 5


LONG = [pytest.mark.soak, pytest.mark.timeout(3600)]
HISTORIES = [
    pytest.param(range(60), 6, id="few"),
    pytest.param(range(2), 24, id="tens"),
    pytest.param(range(60, 9_800), 6, marks=LONG, id="many histories"),
    pytest.param(range(9_800, 9_980), 24, marks=LONG, id="many of tens"),
    pytest.param(range(9_980, 9_998), 200, marks=LONG, id="of hundreds"),
    pytest.param(range(9_998, 10_000), 1000, marks=LONG, id="of a thousand"),
]


@pytest.mark.parametrize(("seeds", "most"), HISTORIES)
def test_random_histories_lose_and_double_nothing(seeds: range, most: int) -> None:
    for seed in seeds:
        world = history(seed, most)
        turns = {number: worker.turns for number, worker in world.workers.items()}
        groups = world.settle()
        assert groups <= MOST_GROUPS
        for number, worker in world.workers.items():
            assert worker.turns - turns[number] <= FOR_A_GROUP * groups + UNDER_WAY
        world.check()


@pytest.mark.parametrize("size", [24, pytest.param(1000, marks=LONG)])
def test_workers_agree_with_the_records_that_are_counted(size: int) -> None:
    world = World(size, seed=1)
    for index in range(size):
        world.start(index)

    def of_each_to_each() -> float:
        return world.settle_all(rounds=100) / (len(world.workers) * (len(world.workers) - 1))

    assert of_each_to_each() == FOR_THE_FIRST_GROUP
    for lost in (1, size // 8):
        world.happen_to_all()
        for worker in list(world.workers.values())[:lost]:  # the leader is among them
            world.end(worker)
        assert of_each_to_each() == FOR_A_LOSS
    world.happen_to_all()
    for index in range(lost):
        world.start(index)
    assert of_each_to_each() <= FOR_AN_ARRIVAL
    world.check()


def test_a_log_is_replayed() -> None:
    one = in_group(B, Group(3, (A, B, C)))
    one.handle([TakesIn(True), CameTo(7), MemberGone(A, certain=True)], 1.0)
    one.handle([StepLeft()], 1.5)
    one.handle([TimePassed(), LinkBroken(3)], 2.0)
    one.handle([CameLate(), ProgramEnded()], 3.0)
    entries = [*replay(str(one.log), MEMBERSHIP_CLASSES)]
    assert len(entries) > 5
    assert all(each.actions == each.then for each in entries)
