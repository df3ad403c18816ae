"""The server as a machine where workers wait for each other: some steps ahead at most, or in rounds."""

import msgspec
import numpy as np
import pytest
from ps_rows import (
    CHIEF,
    OTHER,
    VERSIONS,
    WORKER,
    AddingDevice,
    added,
    as_buffer,
    everything,
    filled,
    read_in,
    reading,
)

from muster.ps import _messages as messages
from muster.ps._array_spec import ArraySpec
from muster.ps._known_workers import STALL_SECS
from muster.ps._machine import Machine
from muster.ps._messages import Caller, Round
from muster.ps._plan import Plan, difference, fingerprint
from muster.ps._recovery import Found
from muster.ps._replies import Asked, Lost

ALL = (CHIEF, WORKER, OTHER)


def started(max_staleness, *, keeps_step=True, workers=1, callers=ALL, value=0.0, plan=None):
    """A server with values that workers have joined, and its plan."""
    plan = plan or added(max_staleness=max_staleness)
    server = Machine(
        AddingDevice(), name="ps 0", run="1", keeps_step=keeps_step, versions=VERSIONS, workers=workers
    )
    for caller in callers:
        join(server, caller, plan)
    server.handle([Asked(CHIEF, messages.Offer(), as_buffer(plan))], 0.0)
    server.handle([Asked(CHIEF, messages.Initialize(), everything(plan, value))], 0.0)
    return server, plan


def join(server, caller, plan):
    request = messages.Join(plan=fingerprint(plan), versions=VERSIONS, starts=caller == CHIEF)
    return server.handle([Asked(caller, request, [])], 0.0)


def told(replies):
    """What each task is told: its ticket and round, or its values."""
    return {reply.caller.task: reply.message for reply in replies}


def take(server, caller, now=0.0, **fields):
    return told(server.handle([Asked(caller, messages.TakeTicket(**fields), [])], now))


class Pusher:
    """Pushes of one worker, to one server."""

    def __init__(self, server, plan, caller):
        self.server, self.plan, self.caller, self.sequence = server, plan, caller, 0

    def __call__(self, value=1.0, now=0.0, **fields):
        self.sequence += 1
        message = messages.Push(number=self.sequence, **fields)
        return told(self.server.handle([Asked(self.caller, message, filled(self.plan.pushed, value))], now))


def pushers(server, plan, callers=ALL):
    return [Pusher(server, plan, caller) for caller in callers]


def values(server, caller=CHIEF):
    """One element of what is pulled, and how often the update has run."""
    (reply,) = [
        each for each in server.handle([Asked(caller, *reading(added()))], 0.0) if each.caller == caller
    ]
    pulled, kept = read_in(reply)
    return float(pulled[0]), float(kept[0])


def test_a_worker_that_is_far_enough_ahead_waits_for_the_slowest():
    server, plan = started(1)
    chief, worker, _ = pushers(server, plan)
    assert take(server, CHIEF)["chief 0"].number == 0
    assert take(server, WORKER)["worker 0"].number == 1
    assert chief(ticket=0, wants=True) == {}
    answers = worker(ticket=1, wants=True)
    assert {task: each.ticket for task, each in answers.items()} == {"worker 0": 2, "chief 0": 3}


def stop(server, how, plan):
    """What a server answers when the worker stops, at 50 s, since when the others wait."""
    match how:
        case "lost":
            return server.handle([Lost(WORKER)], 0.0)
        case "given back":
            return server.handle([Asked(WORKER, messages.GiveBack(), [])], 50.0)
        case "started again":
            return join(server, Caller(WORKER.task, "another run"), plan)
        case "stalled":
            assert server.handle([], 50.0 + STALL_SECS) == []  # the others have not waited for longer
            return server.handle([], 50.1 + STALL_SECS)


@pytest.mark.parametrize("how", ["lost", "given back", "stalled", "started again"])
def test_who_does_not_go_on_keeps_nobody_waiting(how):
    server, plan = started(1)
    chief, worker, _ = pushers(server, plan)
    take(server, CHIEF)
    take(server, WORKER)
    assert chief(ticket=0, wants=True, now=50.0) == {}
    replies = stop(server, how, plan)
    assert told(replies)["chief 0"].ticket == 1
    if how == "stalled":
        assert worker(ticket=1, wants=True)["worker 0"].ticket == 3  # it goes on beside the chief


def test_a_pull_is_no_leave():
    server, plan = started(1)
    chief, _, _ = pushers(server, plan)
    take(server, CHIEF)
    take(server, WORKER)
    server.handle([Asked(WORKER, messages.Pull(), [])], 0.0)
    assert chief(ticket=0, wants=True) == {}


def test_the_end_is_told_to_who_waits_for_others():
    server, plan = started(1)
    chief, worker, _ = pushers(server, plan)
    take(server, CHIEF, max_steps=2)
    take(server, WORKER, max_steps=2)
    assert chief(ticket=0, wants=True, max_steps=2) == {}
    answers = worker(ticket=1, wants=True, max_steps=2)
    assert [each.finished for each in answers.values()] == [True, True]


def test_workers_must_agree():
    server, plan = started(2)
    other = msgspec.structs.replace(plan, max_staleness=None)
    join(server, WORKER, other)
    (reply,) = server.handle([Asked(WORKER, messages.Offer(), as_buffer(other))], 0.0)
    assert "its max_staleness is None, and 2 here" in reply.message.text
    assert difference(plan, plan).startswith("its arrays are the same")


def begun(**options):
    """A server in the first round of the chief and a worker; what each pushes with."""
    server, plan = started(0, workers=2, **options)
    assert take(server, CHIEF) == {}
    ticket = messages.Ticket(number=0, round=Round(1, ("chief 0", "worker 0")))
    assert take(server, WORKER) == {"chief 0": ticket, "worker 0": ticket}
    return server, pushers(server, plan), {"ticket": 0, "round": ticket.round, "wants": True}


def test_a_round_applies_the_mean_once_and_is_one_step():
    server, (chief, worker, _), first = begun()
    assert chief(1.0, **first) == {}
    answers = worker(4.0, **first)
    assert {task: (each.step, each.ticket, each.round.number) for task, each in answers.items()} == {
        "chief 0": (1, 1, 2),
        "worker 0": (1, 1, 2),
    }
    assert values(server) == (2.5, 1.0)
    again = {**first, "ticket": 1, "round": answers["chief 0"].round}
    assert worker(2.0, **again) == {}
    assert chief(2.0, **again)["worker 0"].step == 2
    assert values(server) == (4.5, 2.0)


def test_integers_of_the_last_push_count():
    whole = (ArraySpec("a", (1,), "int32"),)
    plan = Plan(pulled=whole, pushed=whole, update=b"adds", max_staleness=0)
    server, _ = started(0, plan=plan, keeps_step=False)
    both = Round(1, ("chief 0", "worker 0"))
    chief, worker, _ = pushers(server, plan)
    chief(7, round=both)
    worker(4, round=both)
    (reply,) = server.handle([Asked(CHIEF, *reading(plan))], 0.0)
    assert read_in(reply)[0].tolist() == [4]


def test_what_is_true_or_false_must_be_true_for_all():
    """Such as that a row was not looked up, or that gradients are finite."""
    flags = (ArraySpec("a", (3,), "bool"),)
    plan = Plan(pulled=flags, pushed=flags, update=b"adds", max_staleness=0)
    server, _ = started(0, plan=plan, keeps_step=False)
    both = Round(1, ("chief 0", "worker 0"))
    for caller, values in ((CHIEF, [True, False, False]), (WORKER, [True, True, False])):
        server.handle([Asked(caller, messages.Push(number=1, round=both), [np.array(values)])], 0.0)
    (reply,) = server.handle([Asked(CHIEF, *reading(plan))], 0.0)
    assert read_in(reply)[0].tolist() == [True, False, False]


def test_the_first_round_waits_for_all_workers_but_not_for_ever():
    server, _ = started(0, workers=2)
    assert take(server, CHIEF, now=5.0) == {}
    assert server.handle([], 5.0 + STALL_SECS) == []
    assert told(server.handle([], 5.1 + STALL_SECS))["chief 0"].round == Round(1, ("chief 0",))


def test_who_comes_within_a_round_is_in_the_next():
    server, (chief, worker, _), first = begun()
    assert take(server, OTHER) == {}
    chief(**first)
    answers = worker(**first)
    assert answers["worker 1"] == messages.Ticket(number=1, round=answers["chief 0"].round)
    assert set(answers["chief 0"].round.members) == {"chief 0", "worker 0", "worker 1"}


@pytest.mark.parametrize("how", ["lost", "given back", "stalled", "started again"])
@pytest.mark.parametrize("keeps_step", [True, False])
def test_a_round_goes_on_without_who_does_not_push(how, keeps_step):
    if keeps_step:
        server, (chief, worker, _), first = begun()
    else:
        server, plan = started(0, keeps_step=False)
        chief, worker, _ = pushers(server, plan)
        first = {"round": Round(1, ("chief 0", "worker 0"))}
    assert chief(3.0, now=50.0, **first) == {}
    replies = stop(server, how, chief.plan)
    answer = told(replies)["chief 0"]
    assert answer.step == (1 if keeps_step else 0)
    assert values(server) == (3.0, 1.0)
    if how == "stalled":
        late = worker(9.0, now=90.0, **first)
        assert late == {} if keeps_step else not late["worker 0"].applied
        assert values(server) == (3.0, 1.0)
        if keeps_step:  # it takes part in the next round but one
            answers = chief(1.0, now=91.0, **{**first, "ticket": 1, "round": answer.round})
            assert not answers["worker 0"].applied
            assert set(answers["worker 0"].round.members) == {"chief 0", "worker 0"}


def test_a_push_that_comes_again_counts_once_and_waits_for_the_round():
    server, (chief, worker, _), first = begun()
    assert chief(1.0, **first) == {}
    server.handle([Lost(CHIEF)], 0.0)
    join(server, CHIEF, chief.plan)
    chief.sequence = 0
    assert chief(1.0, **first) == {}
    assert set(worker(3.0, **first)) == {"chief 0", "worker 0"}
    assert values(server) == (2.0, 1.0)


def test_a_snapshot_within_a_round_is_of_before_the_round():
    server, (chief, worker, _), first = begun()
    chief(1.0, **first)
    saved, arrays, _ = server.snapshot(0.0)
    assert {source: below for source, (below, _) in saved.applied.items()} == dict.fromkeys(
        (f"{caller.task} {caller.run}" for caller in ALL), 1
    )
    assert (saved.step, arrays[0][0]) == (0, 0.0)
    worker(1.0, **first)
    saved, arrays, _ = server.snapshot(0.0)
    assert saved.applied[f"{CHIEF.task} {CHIEF.run}"] == (2, ())
    assert (saved.step, arrays[0][0]) == (1, 1.0)


def test_other_servers_know_the_rounds_of_a_server_that_was_killed_with_its_workers():
    server, (chief, worker, _), first = begun()
    other, plan = started(0, keeps_step=False)
    for number in (1, 2, 3):
        for push in pushers(other, plan, ALL[:2]):
            push.sequence = number - 1
            push(1.0, round=Round(number, ("chief 0", "worker 0")))
    chief(1.0, **first)
    worker(1.0, **first)
    saved, arrays, _ = server.snapshot(at=1000.0)
    restored = Machine(
        AddingDevice(),
        name="ps 0",
        run="2",
        keeps_step=True,
        versions=VERSIONS,
        find=lambda origin: Found(saved, [*arrays], age_secs=5.0),
    )
    again = Caller("chief 0", "another")
    seen = messages.Seen(origin="of the other server")
    restored.handle(
        [Asked(again, messages.Join(plan=fingerprint(plan), versions=VERSIONS, starts=True, seen=seen), [])],
        0.0,
    )
    join(other, again, plan)
    ticket = take(restored, again)["chief 0"]
    assert ticket.number == 1
    version = values(other, OTHER)[1]
    assert Pusher(other, plan, again)(1.0, round=ticket.round)["chief 0"].applied
    assert values(other, OTHER)[1] == version + 1


def test_a_round_that_nobody_has_pushed_in_is_no_step():
    server, (chief, worker, _), first = begun()
    assert take(server, OTHER) == {}
    server.handle([Lost(CHIEF)], 0.0)
    replies = server.handle([Lost(WORKER)], 0.0)
    assert told(replies) == {"worker 1": messages.Ticket(number=0, round=Round(2, ("worker 1",)))}
    server.handle([Lost(OTHER)], 0.0)
    join(server, OTHER, added(max_staleness=0))
    assert values(server, OTHER) == (0.0, 0.0)


def test_another_server_ends_a_round_when_the_next_one_has_begun_elsewhere():
    server, plan = started(0, keeps_step=False)
    chief, worker, _ = pushers(server, plan)
    both = Round(1, ("chief 0", "worker 0"))
    assert chief(2.0, round=both) == {}
    answers = worker(8.0, round=Round(2, ("worker 0",)))  # it was too late for the first
    assert set(answers) == {"chief 0", "worker 0"}
    assert values(server) == (10.0, 2.0)


def test_max_steps_counts_rounds():
    server, plan = started(0, workers=2)
    chief, worker, _ = pushers(server, plan)
    take(server, CHIEF, max_steps=1)
    (first,) = {each.round for each in take(server, WORKER, max_steps=1).values()}
    chief(ticket=0, round=first, wants=True, max_steps=1)
    answers = worker(ticket=0, round=first, wants=True, max_steps=1)
    assert [(each.finished, each.step) for each in answers.values()] == [(True, 1)] * 2


def test_a_push_without_a_round_is_refused():
    server, (chief, _, _), _ = begun()
    assert "names no round" in chief(wants=True)["chief 0"].text
    assert values(server) == (0.0, 0.0)


def test_a_push_with_a_round_is_refused_elsewhere():
    server, plan = started(1)
    chief, _, _ = pushers(server, plan)
    assert "names a round" in chief(round=Round(1, ("chief 0",)))["chief 0"].text
