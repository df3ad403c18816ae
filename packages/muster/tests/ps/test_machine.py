"""The server without sockets: what it answers, to whom, when, and what it refuses."""

import hypothesis
import hypothesis.strategies as st
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

from muster.net import ProtocolError, decode_message
from muster.ps import _messages as messages
from muster.ps._array_spec import ArraySpec
from muster.ps._known_workers import STALL_SECS
from muster.ps._machine import Machine
from muster.ps._messages import Caller
from muster.ps._plan import Plan, fingerprint
from muster.ps._recovery import Found
from muster.ps._replies import Asked, Lost
from muster.ps._statistics import WorkerStats
from muster.ps._wire import encode

PLAN = added()
NOTHING = messages.Seen()


def machine(keeps_step=True, **options):
    return Machine(
        AddingDevice(),
        **{"name": "ps 0", "run": "1", "versions": VERSIONS, "keeps_step": keeps_step, **options},
    )


def join(server, caller, plan=PLAN, versions=VERSIONS, seen=NOTHING, now=0.0):
    starts = caller.task.startswith("chief")
    request = messages.Join(plan=fingerprint(plan), versions=versions, starts=starts, seen=seen)
    return ask(server, caller, request, now=now)


def ask(server, caller, message, arrays=(), now=0.0):
    """The answer to a request, if it is the only one that it makes possible; None if it is deferred."""
    replies = server.handle([Asked(caller, message, list(arrays))], now)
    if not replies:
        return None
    assert [each.caller for each in replies] == [caller]
    return replies[0].message


def offered(keeps_step=True, callers=(CHIEF, WORKER, OTHER), plan=PLAN):
    server = machine(keeps_step)
    for caller in callers:
        if not join(server, caller, plan).known:
            assert ask(server, caller, messages.Offer(), as_buffer(plan)).known
    return server


def started(keeps_step=True, step=0):
    server = offered(keeps_step)
    assert ask(server, CHIEF, messages.Initialize(step=step), everything(PLAN, 1.0)) == messages.Done()
    return server


def push(server, caller, sequence, value=1.0, **fields):
    return ask(server, caller, messages.Push(number=sequence, **fields), filled(PLAN.pushed, value))


def values(server, caller=WORKER):
    (reply,) = server.handle([Asked(caller, messages.Pull(), [])], 0.0)
    return reply.arrays[0]


def refusal(answer):
    assert isinstance(answer, messages.Refused), answer
    return answer.text


def test_the_first_plan_is_asked_for_and_kept():
    server = machine()
    assert not join(server, WORKER).known
    assert ask(server, WORKER, messages.Offer(), as_buffer(PLAN)) == messages.Joined(
        known=True, initialized=False, sequence=0, version=0, run="1"
    )
    assert join(server, OTHER).known
    assert ask(server, OTHER, messages.Offer(), as_buffer(PLAN)).known  # both had been asked


@pytest.mark.parametrize(
    ("theirs", "says"),
    [
        (added(4), r"its pulled array a (float32[4, 2]) is a (float32[3, 2]) here"),
        (Plan(pulled=PLAN.pulled[:1]), "it lacks the pulled array b (float32[3, 2])"),
        (Plan(pulled=PLAN.pulled), "it lacks the kept array count (float32[1])"),
        (
            Plan(pulled=(*PLAN.pulled, ArraySpec("c", (), "int32"))),
            "it has one more pulled array, c (int32[])",
        ),
        (
            Plan(pulled=PLAN.pulled, kept=PLAN.kept, pushed=PLAN.pushed, update=b"other"),
            "its arrays are the same, and its update differs",
        ),
        (Plan(pulled=PLAN.pulled, server=1, servers=2), "it is for ps 1 of 2 in all, and this is ps 0 of 1"),
    ],
)
def test_another_plan_is_refused_with_what_differs_first(theirs, says):
    server = offered(callers=[CHIEF])
    assert not join(server, WORKER, theirs).known
    assert says in refusal(ask(server, WORKER, messages.Offer(), as_buffer(theirs)))


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (Plan(pulled=PLAN.pulled * 2), "the name a twice"),
        (Plan(pulled=(ArraySpec("a", (-1,), "float32"),)), "negative"),
        *(
            (Plan(pulled=(ArraySpec("a", (1,), dtype),)), "dtype that is not numeric")
            for dtype in (
                "object",
                "float33",
                "i4",
                "f4,f4",
                "(2,)f4",
                "(2",
                "S",
                "U5",
                "void",
                "V8",
                "",
                "finfo",
            )
        ),
        (Plan(pushed=PLAN.pushed), "no update for what is pushed"),
        (Plan(pulled=PLAN.pulled, update=b"nonsense"), "its update is none"),
        (Plan(update=b"nonsense"), "an update, and nothing to change"),
    ],
)
def test_a_plan_that_cannot_be_meant_is_refused_and_another_one_taken(plan, says):
    server = machine()
    join(server, WORKER)
    assert says in refusal(ask(server, WORKER, messages.Offer(), as_buffer(plan)))
    for rubbish in (bytes(9), b"\x81\xa7meaning\xa1\xff", b"\x82\xa1z" + b"\x91" * 60_000):
        offered = [np.frombuffer(rubbish, np.uint8)]
        assert "cannot be read" in refusal(ask(server, WORKER, messages.Offer(), offered))
    assert ask(server, WORKER, messages.Offer(), as_buffer(PLAN)).known


def test_other_versions_are_refused():
    text = refusal(join(machine(), WORKER, versions={"jax": "1.1"}))
    assert "it has 1.1 of jax, and this server has 1.2" in text


def test_nothing_is_answered_before_joining_and_without_a_plan():
    server = machine()
    assert "not joined" in refusal(ask(server, WORKER, messages.Pull()))
    join(server, WORKER)
    assert "no plan yet" in refusal(ask(server, WORKER, messages.Pull()))


def test_pulls_and_tickets_wait_for_initial_values():
    server = offered()
    assert ask(server, WORKER, messages.Pull()) is None
    assert ask(server, OTHER, messages.TakeTicket()) is None
    assert "before the last request is answered" in refusal(ask(server, WORKER, messages.Pull()))
    replies = server.handle([Asked(CHIEF, messages.Initialize(step=5), everything(PLAN, 2.0))], 0.0)
    assert [each.caller for each in replies] == [CHIEF, WORKER, OTHER]
    assert replies[1].message == messages.Values(version=1, step=5)
    assert replies[1].arrays[0].tolist() == [2.0] * 12
    assert replies[2].message == messages.Ticket(number=5)


def test_only_the_chief_gives_initial_values_and_not_after_pushes():
    server = offered()
    initialize = messages.Initialize()
    assert "not the chief" in refusal(ask(server, WORKER, initialize, everything(PLAN, 1.0)))
    assert ask(server, CHIEF, initialize, everything(PLAN, 1.0)) == messages.Done()
    assert ask(server, CHIEF, initialize, everything(PLAN, 2.0)) == messages.Done()  # started again
    assert values(server)[0] == 2.0
    push(server, WORKER, 1)
    assert "workers have changed since" in refusal(ask(server, CHIEF, initialize, everything(PLAN, 9.0)))
    assert values(server)[0] == 3.0


def test_a_push_is_answered_with_the_newest_values():
    server = started(keeps_step=False)
    assert push(server, WORKER, 1) == messages.Values(version=2, step=0)
    assert push(server, OTHER, 1) == messages.Values(version=3, step=0)
    assert values(server).tolist() == [3.0] * 12


def test_a_push_that_comes_again_is_applied_once():
    server = started()
    assert push(server, WORKER, 1, wants=True) == messages.Values(version=2, step=0, ticket=0)
    assert join(server, WORKER).sequence == 1
    assert push(server, WORKER, 1, wants=True) == messages.Values(version=2, step=0, ticket=0)
    assert values(server)[0] == 2.0
    assert "push 3 comes after push 1" in refusal(push(server, WORKER, 3))


def test_a_task_that_was_started_again_begins_anew():
    server = started()
    push(server, WORKER, 1, wants=True)
    again = Caller(WORKER.task, "another run")
    assert join(server, again).sequence == 0
    assert "another process has joined as worker 0" in refusal(push(server, WORKER, 2))
    # The earlier process held it.
    assert ask(server, OTHER, messages.TakeTicket()) == messages.Ticket(number=0)
    push(server, again, 1)
    assert values(server, OTHER)[0] == 3.0


def test_a_ticket_of_an_earlier_process_goes_to_who_waits_for_it():
    server = started()
    ask(server, WORKER, messages.TakeTicket(max_steps=1))
    assert ask(server, OTHER, messages.TakeTicket(max_steps=1)) is None
    request = messages.Join(plan=fingerprint(PLAN), versions=VERSIONS)
    replies = server.handle([Asked(Caller(WORKER.task, "another run"), request, [])], 0.0)
    assert [(each.caller, each.message) for each in replies[1:]] == [(OTHER, messages.Ticket(number=0))]


@pytest.mark.parametrize(
    ("arrays", "given"),
    [
        ([], "none"),
        ([np.zeros(11, np.float32)], "11 of float32"),
        ([np.zeros(12, np.float64)], "12 of float64"),
        ([np.zeros(12, np.float32), np.zeros(1, np.int8)], "12 of float32, 1 of int8"),
    ],
)
def test_a_push_of_other_sizes_or_dtypes_is_refused_before_anything_changes(arrays, given):
    server = started()
    ask(server, WORKER, messages.TakeTicket())
    before = ask(server, OTHER, messages.Pull())
    text = refusal(ask(server, WORKER, messages.Push(number=1, ticket=0), arrays))
    assert f"other elements are pushed than its function takes: {given}; it takes 12 of float32" in text
    assert ask(server, OTHER, messages.Pull()) == before
    assert push(server, WORKER, 1, ticket=0) == messages.Values(version=2, step=1)


def test_reading_everything():
    server = offered()
    assert "no values yet" in refusal(ask(server, CHIEF, *reading(PLAN)))
    assert "no values yet" in refusal(push(server, WORKER, 1))
    ask(server, CHIEF, messages.Initialize(step=7), everything(PLAN, 4.0))
    push(server, WORKER, 1)
    (reply,) = server.handle([Asked(WORKER, *reading(PLAN))], 0.0)
    assert reply.message == messages.Values(version=2, step=7)
    assert [array[0] for array in read_in(reply)] == [5.0, 5.0]


def test_the_last_ticket_is_waited_for_until_its_step_is_made():
    server = started()
    assert ask(server, WORKER, messages.TakeTicket(max_steps=1)) == messages.Ticket(number=0)
    assert ask(server, OTHER, messages.TakeTicket(max_steps=1)) is None
    request = messages.Push(number=1, ticket=0, wants=True, max_steps=1)
    replies = server.handle([Asked(WORKER, request, filled(PLAN.pushed, 1.0))], 0.0)
    assert [(each.caller, each.message) for each in replies] == [
        (WORKER, messages.Values(version=2, step=1, finished=True)),
        (OTHER, messages.Ticket(number=None)),
    ]


@pytest.mark.parametrize("how", ["lost", "given back"])
def test_a_ticket_comes_back(how):
    server = started()
    ask(server, WORKER, messages.TakeTicket(max_steps=1))
    assert ask(server, OTHER, messages.TakeTicket(max_steps=1)) is None
    replies = (
        server.handle([Lost(WORKER)], 0.0)
        if how == "lost"
        else server.handle([Asked(WORKER, messages.GiveBack(), [])], 0.0)
    )
    assert (replies[-1].caller, replies[-1].message) == (OTHER, messages.Ticket(number=0))


def test_a_step_whose_ticket_has_gone_to_another_does_not_count():
    server = started()
    ask(server, WORKER, messages.TakeTicket(max_steps=1))
    server.handle([Lost(WORKER)], 0.0)
    ask(server, OTHER, messages.TakeTicket(max_steps=1))
    join(server, WORKER)
    late = messages.Values(version=1, step=0, applied=False)
    assert push(server, WORKER, 1, ticket=0, max_steps=1) == late
    assert push(server, WORKER, 1, ticket=0, max_steps=1) == late  # also when it comes again
    assert push(server, OTHER, 1, ticket=0, max_steps=1) == messages.Values(version=2, step=1)


def test_who_is_lost_gets_no_answer():
    server = offered()
    ask(server, WORKER, messages.Pull())
    assert server.handle([Lost(WORKER)], 0.0) == []
    assert ask(server, CHIEF, messages.Initialize(), everything(PLAN, 1.0)) == messages.Done()


def test_tickets_only_where_the_global_step_is_kept():
    server = started(keeps_step=False)
    assert "keeps no global step" in refusal(ask(server, WORKER, messages.TakeTicket()))
    assert "keeps no global step" in refusal(push(server, WORKER, 1, ticket=0))
    assert "keeps no global step" in refusal(push(server, WORKER, 1, wants=True))
    assert values(server)[0] == 1.0
    assert ask(server, WORKER, messages.GiveBack()) == messages.Done()


def test_the_end_answers_everyone():
    server = offered()
    assert ask(server, WORKER, messages.Pull()) is None
    assert "not the chief" in refusal(ask(server, OTHER, messages.End()))
    replies = server.handle([Asked(CHIEF, messages.End(), [])], 0.0)
    assert server.ended
    assert [(each.caller, each.message) for each in replies] == [
        (CHIEF, messages.Done()),
        (WORKER, messages.Ended()),
    ]
    assert ask(server, OTHER, messages.Pull()) == messages.Ended()
    assert join(server, WORKER) == messages.Ended()


def test_an_empty_plan_has_steps_without_values():
    empty = Plan()
    server = offered(plan=empty)
    ask(server, CHIEF, messages.Initialize())
    assert ask(server, WORKER, messages.Push(number=1, wants=True)) == messages.Values(
        version=2, step=0, ticket=0
    )


def test_staleness_counts_the_updates_between_a_pull_and_its_push():
    server = started()
    for caller in (WORKER, OTHER):
        ask(server, caller, messages.Pull())
    for caller, sequence, total in ((WORKER, 1, 0), (WORKER, 2, 0), (OTHER, 1, 2), (WORKER, 3, 3)):
        push(server, caller, sequence)
        assert server.statistics(0.0).staleness == total


def test_what_is_counted():
    server = started()
    server.handle([Asked(WORKER, messages.TakeTicket(max_steps=1), [])], 1.0)
    ask(server, OTHER, messages.TakeTicket(max_steps=1), now=2.0)
    push(server, CHIEF, 1)
    push(server, CHIEF, 1)
    push(server, CHIEF, 3)
    counts = server.handle([Asked(CHIEF, messages.Stats(), [])], 4.0)[0].message
    assert (counts.pushes, counts.pulls, counts.duplicates, counts.refused, counts.waiting) == (1, 2, 1, 1, 1)
    assert (counts.received_bytes, counts.sent_bytes) == (len(PLAN.encode()) + 52 + 3 * 48, 2 * 48)
    assert counts.staleness == 0
    assert counts.workers["worker 0"] == WorkerStats(0, 3.0, True)
    assert counts.workers["chief 0"] == WorkerStats(1, 0.0, True)


def killed(pushes=3):
    """What a machine leaves that has applied some pushes of a worker, and the machine that takes it up."""
    server = offered()
    ask(server, CHIEF, messages.Initialize(step=10, origin="first"), everything(PLAN, 1.0))
    for sequence in range(1, pushes + 1):
        ticket = ask(server, WORKER, messages.TakeTicket()).number
        push(server, WORKER, sequence, ticket=ticket)
    saved, arrays, _ = server.snapshot(at=100.0)

    def find(origin):
        return Found(saved, [*arrays], age_secs=5.0) if origin == saved.origin else None

    return machine(run="2", find=find)


def seen(version, sequence, **fields):
    return messages.Seen(origin="first", run="1", version=version, sequence=sequence, **fields)


def test_a_server_that_was_killed_goes_on_from_its_snapshot(caplog):
    server = killed()
    joined = join(server, WORKER, seen=seen(9, 8, idle_secs=1.5), now=50.0)
    assert joined == messages.Joined(
        known=True, initialized=True, sequence=8, version=4, run="2", origin="first"
    )
    assert values(server)[0] == 4.0
    assert ask(server, WORKER, messages.TakeTicket()).number == 13
    assert push(server, WORKER, 9, ticket=17) == messages.Values(
        origin="first", version=5, step=14
    )  # taken before it was killed
    assert "ps 0 lost 5 updates, 3.5 s of training." in caplog.text
    statistics = ask(server, WORKER, messages.Stats())
    assert (statistics.lost_updates, statistics.lost_secs) == (5, 3.5)


def test_the_worker_that_has_seen_most_says_what_is_lost(caplog):
    server = killed()
    join(server, WORKER, seen=seen(6, 4, idle_secs=4.0), now=50.0)
    join(server, OTHER, seen=seen(9, 3, idle_secs=2.0), now=50.5)
    push(server, WORKER, 5)
    again = messages.Seen(origin="first", run="2", version=30, sequence=5)
    join(server, WORKER, seen=again, now=60.0)  # of this process
    assert "ps 0 lost 2 updates, 1.0 s of training." in caplog.text
    assert "ps 0 lost 5 updates in all, 3.5 s of training." in caplog.text
    statistics = ask(server, WORKER, messages.Stats())
    assert (statistics.lost_updates, statistics.lost_secs) == (5, 3.5)


def test_a_push_that_the_snapshot_contains_is_not_applied_again():
    server = killed(pushes=3)
    assert join(server, WORKER, seen=seen(3, 2)).sequence == 3  # the answer to the third did not arrive
    push(server, WORKER, 3)
    assert values(server)[0] == 4.0


def test_a_worker_that_was_started_again_with_its_server_waits_for_the_snapshot():
    server = killed()
    again = Caller(WORKER.task, "another")
    join(server, again)
    assert ask(server, again, messages.Offer(), as_buffer(PLAN)).known
    assert ask(server, again, messages.Pull()) is None  # a server without values cannot say whose it had
    replies = server.handle(
        [Asked(CHIEF, messages.Join(plan=fingerprint(PLAN), versions=VERSIONS, seen=seen(4, 0)), [])], 0.0
    )
    assert [each.caller for each in replies] == [CHIEF, again]
    assert ask(server, again, messages.TakeTicket()).number == 13
    assert push(server, again, 1, ticket=13).version == 5


def test_a_snapshot_that_nobody_knows_of_is_left():
    server = killed()
    assert not join(server, CHIEF).initialized
    assert not join(server, WORKER, seen=messages.Seen(origin="second", run="3")).initialized
    ask(server, CHIEF, messages.Offer(), as_buffer(PLAN))
    assert (
        ask(server, CHIEF, messages.Initialize(step=7, origin="third"), everything(PLAN, 9.0))
        == messages.Done()
    )
    assert join(server, WORKER, seen=seen(9, 8)).origin == "third"
    assert values(server)[0] == 9.0


def test_a_snapshot_of_another_program_is_not_taken_for_this_one():
    server = killed()
    assert not join(server, WORKER, added(4), seen=seen(9, 8)).known
    assert "differs" in refusal(ask(server, WORKER, messages.Offer(), as_buffer(added(4))))


def test_a_snapshot_is_wanted_after_the_last_step():
    server = started()
    assert server.milestones == 0
    ask(server, WORKER, messages.TakeTicket(max_steps=1))
    assert push(server, WORKER, 1, ticket=0, wants=True, max_steps=1).finished
    assert server.milestones == 1
    assert ask(server, WORKER, messages.TakeTicket(max_steps=1)).number is None
    assert server.milestones == 1


def test_a_worker_that_stands_still_is_named_until_it_is_back(caplog):
    server = started()
    push(server, WORKER, 1)  # at 0 s, as all here
    server.handle([Asked(OTHER, messages.Pull(), [])], 50.0)
    server.handle([Lost(CHIEF)], 0.0)
    assert server.handle([], STALL_SECS) == []
    assert caplog.text == ""
    server.handle([], 40.0)
    server.handle([], 50.0)
    assert caplog.text.count("worker 0 has sent nothing for 40 s") == 1
    assert caplog.text.count("has sent nothing") == 1
    server.handle([Asked(WORKER, messages.Pull(), [])], 55.0)
    server.handle([Asked(WORKER, messages.Pull(), [])], 56.0)
    assert caplog.text.count("worker 0 is back") == 1


def test_a_worker_that_waits_for_this_server_is_not_named(caplog):
    server = offered()
    assert ask(server, WORKER, messages.Pull()) is None
    server.handle([Lost(OTHER)], 0.0)
    server.handle([Lost(CHIEF)], 0.0)
    server.handle([], 99.0)
    assert caplog.text == ""


@pytest.mark.parametrize("step", [-1, 2**64 - 1])
def test_a_global_step_must_be_one_to_count_on_from(step):
    frame = encode(messages.Initialize(step=step), ())[0]
    with pytest.raises(ProtocolError, match="message.step"):
        decode_message(frame[4:], messages.Header)


@pytest.mark.parametrize("number", [-1, 2**64 - 1])
def test_a_round_must_have_a_number_to_count_on_from(number):
    frame = encode(messages.Push(number=1, round=messages.Round(number, ())), ())[0]
    with pytest.raises(ProtocolError, match="message.round.number"):
        decode_message(frame[4:], messages.Header)


INTEGERS = st.integers(-(2**63), 2**64 - 1) | st.integers(-1, 3)
REQUESTS = st.one_of(
    st.builds(
        messages.Join, plan=st.just(fingerprint(PLAN)), versions=st.just(VERSIONS), starts=st.booleans()
    ),
    st.builds(
        messages.Push,
        number=INTEGERS,
        ticket=st.none() | INTEGERS,
        wants=st.booleans(),
        max_steps=st.none() | INTEGERS,
    ),
    st.builds(messages.Initialize, step=INTEGERS),
    st.builds(messages.TakeTicket, max_steps=st.none() | INTEGERS),
    *(st.just(kind()) for kind in (messages.Offer, messages.Pull, messages.GiveBack, messages.Read)),
    *(st.just(kind()) for kind in (messages.Stats, messages.End)),
)
ARRAYS = st.sampled_from(
    [[], filled(PLAN.pushed, 1.0), everything(PLAN, 1.0), as_buffer(PLAN), [np.zeros(3, np.uint8)]]
)


@hypothesis.given(st.lists(st.tuples(st.sampled_from([CHIEF, WORKER, OTHER]), REQUESTS, ARRAYS), max_size=30))
def test_whatever_callers_send_is_answered_or_refused(requests):
    server = offered()
    version = 0
    for now, (caller, request, arrays) in enumerate(requests):
        replies = server.handle([Asked(caller, request, arrays)], float(now))
        refused = any(isinstance(each.message, messages.Refused) for each in replies if each.caller == caller)
        now_at = server.statistics(0.0).version
        assert now_at == version or not refused
        version = now_at
        for reply in [*replies, *server.handle([], float(now))]:
            encode(reply.message, reply.arrays)
    assert server.ended or join(server, WORKER).known


def test_each_step_counts_once_on_all_servers_if_its_ticket_says_what_it_computes():
    shared = messages.SharedInput(position={}, begin=3)
    server = offered(keeps_step=False)
    first = messages.Initialize(step=5, origin="first", shared=shared, open=(3,))
    ask(server, CHIEF, first, everything(PLAN, 1.0))
    for caller, sequence, ticket, counts in [
        (WORKER, 1, 7, True),
        (OTHER, 1, 7, False),  # the first one was taken for lost
        (OTHER, 2, 3, True),
        (OTHER, 3, 3, False),
        (WORKER, 2, 6, True),
        (WORKER, 3, 4, False),  # from before
    ]:
        before = values(server)[0]
        assert push(server, caller, sequence, ticket=ticket).applied is counts
        assert values(server)[0] == before + counts
    saved, arrays, _ = server.snapshot(0.0)
    assert (saved.step, saved.open, saved.shared) == (8, (), shared)
    again = machine(keeps_step=False, find=lambda origin: Found(saved, [*arrays], 0.0))
    for caller in (OTHER, WORKER):
        join(again, caller, seen=messages.Seen(origin="first", sequence=3))
    assert not push(again, WORKER, 4, ticket=6).applied
    assert push(again, WORKER, 5, ticket=8).applied


def test_the_first_server_says_which_pass_workers_share():
    shared = messages.SharedInput(position={"elements": 0}, begin=3)
    server = offered()
    ask(server, CHIEF, messages.Initialize(step=3, shared=shared), everything(PLAN, 1.0))
    assert ask(server, WORKER, messages.TakeTicket()) == messages.Ticket(number=3, shared=shared)
    assert ask(server, OTHER, messages.TakeTicket()).number == 4
    push(server, OTHER, 1, ticket=4)
    (reply,) = server.handle([Asked(OTHER, *reading(PLAN))], 0.0)
    assert (reply.message.step, reply.message.open) == (4, (3,))
    saved = server.snapshot(0.0).saved
    assert (saved.step, saved.open, saved.shared) == (4, (3,), shared)
