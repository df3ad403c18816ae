"""The store of a parameter server without sockets: what it holds, refuses, and counts once."""

import random

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_values import (
    ADD,
    CHIEF,
    COUNT,
    LOOK,
    OTHER,
    VERSIONS,
    WORKER,
    A,
    B,
    NumPyDevice,
    Talk,
    full,
    made,
)

from muster.ps import _messages as messages
from muster.ps._applied import Applied
from muster.ps._array_spec import ArraySpec
from muster.ps._bundles import bundle, packed
from muster.ps._messages import Caller, End, Ended, Stats
from muster.ps._plan import Plan
from muster.ps._replies import Asked, Lost
from muster.ps.contents import FunctionSignature, StoredFunction


@pytest.fixture
def machine():
    return made()


@pytest.fixture
def chief(machine):
    return Talk(machine).prepare()


def refused(match, call, *args, **options):
    with pytest.raises(RuntimeError, match=match):
        call(*args, **options)


def test_variables_come_at_any_time_and_are_read_and_assigned(chief):
    later = ArraySpec("later", (2,), "bfloat16")
    chief.create((later, 3.0))
    chief.assign(A, 5.0)
    first, last = chief.read("later", "a")
    assert (first.dtype.name, first.tolist()) == ("bfloat16", [3.0, 3.0])
    assert (last.shape, last.max(), last.min()) == ((3, 2), 5.0, 5.0)


def test_what_is_added_counts_beside_what_workers_push(machine, chief):
    worker = Talk(machine, WORKER)
    worker.apply(1, 2.0)
    chief.add(A, 3.0)
    worker.apply(2, 4.0)
    assert chief.first("a") == 9.0
    chief.add(COUNT, -2)
    (count,) = chief.read("count")
    assert (count.shape, count.dtype.name, count.tolist()) == ((), "int32", 0)
    chief.add(A, 1.0, sequence=chief.sequence)  # its answer was lost
    assert chief.first("a") == 9.0


def test_what_is_there_already_is_not_created_again(chief):
    chief.assign(A, 5.0)
    chief.create((A, 1.0), (ArraySpec("new", (), "int8"), 2))
    assert [array.max() for array in chief.read("a", "new")] == [5.0, 2]


def test_a_function_is_pulled_and_applied(machine, chief):
    worker = Talk(machine, WORKER)
    (values,) = worker.pull("look")
    assert values.tolist() == [0.0] * 10
    said, (values,) = worker.apply(1, 2.0)
    assert (said, values.tolist()) == (messages.Values(version=1), [2.0] * 6 + [0.0] * 4)
    assert worker.first("count") == 1


def test_a_closure_counts_once(machine, chief):
    one, two = Talk(machine, WORKER), Talk(machine, OTHER)
    one.apply(7)
    said, (values,) = two.apply(7)
    assert said == messages.Values(version=1, repeated=True)
    assert values[0] == 1.0
    assert (chief.first("a"), chief.first("count"), machine.statistics(0.0).duplicates) == (1.0, 1, 1)


def test_closures_below_the_watermark_are_forgotten_and_do_not_count_again(machine, chief):
    worker = Talk(machine, WORKER)
    for closure in range(100):
        worker.apply(2 * closure, watermark=max(0, 2 * closure - 7))
    assert machine.statistics(0.0).remembered == 4
    assert worker.apply(2)[0].repeated
    assert chief.first("a") == 100.0


@pytest.mark.parametrize("seed", range(40))
def test_closures_that_come_again_in_any_order_count_once(seed):
    """Workers die before and after what they push arrives, and the coordinator sends closures anew."""
    rng = random.Random(seed)
    machine = made()
    chief = Talk(machine).prepare()
    workers = [Talk(machine, caller) for caller in (WORKER, OTHER)]
    waiting, running, ended, watermark = list(range(16)), [], set(), 0
    applied, again = set(), 0
    while waiting or running:
        if waiting and (len(running) < 2 or rng.random() < 0.2):
            if (number := waiting.pop(0)) not in ended:
                running.append((number, watermark))
            continue
        number, said = running.pop(rng.randrange(len(running)))
        arrives = rng.random() < 0.7
        if arrives:
            answer, _ = rng.choice(workers).apply(number, 2.0**number, said)
            assert answer.repeated == (number in applied)
            applied.add(number)
            again += answer.repeated
        if rng.random() < 0.3:  # the worker is taken for dead, and its request may still be on the way
            running.append((number, said))
        if arrives and rng.random() < 0.7:
            ended.add(number)
            while watermark in ended:
                watermark += 1
        elif number not in ended:
            waiting.insert(0, number)
    assert applied == set(range(16))
    assert (chief.first("a"), chief.first("count")) == (2.0**16 - 1, 16)
    assert machine.statistics(0.0).duplicates == again
    assert machine.statistics(0.0).remembered <= 16 - machine.snapshot(0.0)[0].applied[""][0]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=60))
def test_applied_numbers_are_those_that_a_set_would_have(events):
    applied, wanted, highest = Applied(), set(), 0
    for number, watermark in events:
        if number not in applied:
            assert applied.add(number)
        wanted.add(number)
        assert not applied.add(number)
        applied.forget(watermark)
        highest = max(highest, watermark)
        while highest in wanted:
            highest += 1
        assert len(applied) == len({each for each in wanted if each >= highest})
        assert all((each in applied) == (each < highest or each in wanted) for each in range(32))
    again = Applied(applied.watermark, applied.numbers())
    assert all((each in again) == (each in applied) for each in range(32))


def test_changes_that_come_again_are_made_once(machine, chief):
    assigned = chief.sequence + 1
    chief.assign(A, 5.0)
    Talk(machine, WORKER).apply(1)
    again = Talk(machine, CHIEF)
    assert again.joined.sequence == assigned
    again.assign(A, 5.0, sequence=assigned)
    assert again.first("a") == 6.0
    assert machine.statistics(0.0).duplicates == 1


def test_changes_of_several_clients_are_numbered_by_themselves(machine, chief):
    other = Talk(machine, Caller("chief 0", CHIEF.run, "2"), client="another thread")
    other.assign(A, 5.0)
    chief.assign(A, 6.0)
    assert other.first("a") == 6.0


def test_deleted_variables_go_with_the_functions_that_need_them(machine, chief):
    chief.delete("b", "unknown")
    refused("no array b on this server", chief.read, "b")
    refused("no function add on this server. The coordinator registers it first", chief.pull, "add")
    assert machine.statistics(0.0).nbytes == 28
    chief.create((B, 1.0))
    chief.register(LOOK)
    assert chief.first("b") == 1.0


def test_what_is_read_does_not_change(machine, chief):
    before = machine.snapshot(0.0)[1][0]
    Talk(machine, WORKER).apply(1)
    assert not before.any()


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (
            ArraySpec("a", (2, 3), "float32"),
            r"its array a \(float32\[2, 3\]\) is here already, as a \(float32\[3, 2\]\)",
        ),
        (ArraySpec("big", (1 << 20,), "float32"), "its arrays are too large"),
        (ArraySpec("text", (1,), "S5"), "no number|not numeric"),
        (ArraySpec("less", (-1, -4), "float32"), "negative size"),
    ],
)
def test_arrays_that_cannot_be_created(chief, array, text):
    content = [np.zeros(max(array.size, 0), array.dtype)]
    if array.dtype == "S5":
        content = [np.zeros(1, np.float32)]
    refused(text, chief.change, messages.Create, [packed([array]), *content])
    assert chief.first("a") == 0.0


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (ArraySpec("a", (6,), "float32"), r"its array a \(float32\[6\]\) is a \(float32\[3, 2\]\) here"),
        (ArraySpec("a", (3, 2), "int32"), r"its array a \(int32\[3, 2\]\) is a \(float32\[3, 2\]\) here"),
        (ArraySpec("c", (6,), "float32"), "no array c on this server. Create it first"),
    ],
)
@pytest.mark.parametrize("kind", [messages.Assign, messages.Add])
def test_values_that_do_not_fit_change_nothing(chief, kind, array, text):
    given = [(B, full(B, 9.0)), (array, full(array, 9))]
    refused(text, chief.change, kind, bundle(given))
    assert chief.first("b") == 0.0


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"takes": ("a", "c")}, "it takes c, which is not on this server. Create it first"),
        ({"reads": ("c",)}, "it reads c, which is not"),
        ({"updates": ("c",)}, "it updates c, which is not"),
        ({"takes": ("a", "a")}, "it takes a twice"),
        ({"updates": ()}, "it has an update, and nothing to change"),
        ({"update": b""}, "it has arrays to change, and no update"),
        ({"updates": (), "update": b""}, "no update for what is pushed"),
        ({"pushed": (B, B)}, "pushed arrays have the name b twice"),
        ({"pushed": (ArraySpec("p", (1,), "object"),)}, "dtype that is not numeric"),
        ({"pushed": (ArraySpec("p", (1 << 40,), "float32"),)}, "too large"),
        ({"fingerprint": ""}, "fingerprint is empty"),
        ({"update": b"nonsense"}, "its update is none"),
    ],
)
def test_functions_that_contradict_themselves(chief, changes, text):
    wrong = msgspec.structs.replace(ADD, **{"fingerprint": "wrong", **changes})
    refused(f"its function cannot be used: .*{text}", chief.register, wrong)
    refused("no function", chief.pull, "wrong")


def test_another_function_with_the_same_fingerprint(machine, chief):
    chief.register(ADD)
    refused(
        "another function with its fingerprint", chief.register, msgspec.structs.replace(ADD, takes=("a",))
    )
    assert machine.statistics(0.0).functions == 2


def test_pushes_that_do_not_fit(machine, chief):
    worker = Talk(machine, WORKER)
    apply = messages.Push(function="add", number=1)
    for wrong in ([], [np.zeros(5, np.float32)], [np.zeros(6, np.int32)], [np.zeros(6, np.float32)] * 2):
        refused(
            "other elements are pushed than its function takes.*; it takes 6 of float32",
            worker.ask,
            apply,
            wrong,
        )
    refused("changes nothing on this server. Pull instead", worker.apply, 1, function="look")
    refused("no function nothing on this server", worker.apply, 1, function="nothing")
    refused("closure 3 is below its watermark 4", worker.apply, 3, watermark=4)
    assert not worker.apply(1)[0].repeated


@pytest.mark.parametrize(
    "kind", [messages.Create, messages.Assign, messages.Add, messages.Delete, messages.Register]
)
@pytest.mark.parametrize(
    "buffers",
    [
        [],
        [np.zeros(3, np.uint8)],
        [np.full(9, 0xC1, np.uint8)],
        [packed({"a": 1})],
        [np.zeros(3, np.float32)],
        [packed([(1, 2, 3)])],
    ],
    ids=["none", "zeros", "no MessagePack", "a map", "floats", "numbers"],
)
def test_changes_that_describe_nothing(chief, kind, buffers):
    refused("its (Create|Assign|Add|Delete|Register) is none: ", chief.change, kind, buffers)


def test_other_elements_than_are_described(chief):
    buffers = bundle([(B, full(B, 1.0))])
    for wrong in (buffers[:1], [buffers[0], np.zeros(3, np.float32)], [*buffers, np.zeros(3, np.float32)]):
        refused("other elements than it describes", chief.change, messages.Assign, wrong)


def test_buffers_for_which_there_is_no_room(machine, chief):
    refused("GB of memory", chief.ask, messages.Read(), [np.broadcast_to(np.zeros(1, np.uint8), (1 << 60,))])
    refused("takes none", chief.ask, messages.Pull(function="look"), [np.zeros(1, np.uint8)])


def test_only_the_coordinator_changes_what_is_there(machine, chief):
    worker = Talk(machine, WORKER)
    for call in (
        lambda: worker.create((A, 1.0)),
        lambda: worker.assign(A, 1.0),
        lambda: worker.add(A, 1.0),
        lambda: worker.delete("a"),
        lambda: worker.register(ADD),
        lambda: worker.ask(End()),
    ):
        refused("it is not the coordinator, which alone", call)
    assert not machine.ended


def test_who_has_not_joined_is_refused(machine):
    talk = Talk(machine)
    machine.handle([Lost(talk.caller)], 0.0)
    refused("it has not joined", talk.pull)


def test_other_versions_of_software_are_refused(machine, monkeypatch):
    monkeypatch.setitem(VERSIONS, "jax", "1.3")
    other = made()
    monkeypatch.undo()
    refused("it has 1.2 of jax, and this server has 1.3", Talk, other)


def test_a_worker_without_a_coordinator(machine):
    refused("was started again, and has no snapshot.*snapshot_dir", Talk, machine, WORKER)
    refused("names no coordinator's program", Talk, machine, origin="")


def test_a_server_that_lost_its_values_says_so_to_the_coordinator(machine):
    seen = messages.Seen(origin="origin", run="another", version=3)
    refused("was started again, and has no snapshot", Talk, machine, seen=seen)
    assert Talk(machine).joined.version == 0


def test_two_coordinators_at_a_time(machine, chief):
    other = Caller("chief 0", "another process")
    refused("chief 0 is the coordinator of a job on this server", Talk, machine, other, origin="another")
    assert chief.first("a") == 0.0


def test_a_coordinator_that_was_started_again_begins_anew(machine, chief):
    worker = Talk(machine, WORKER)
    worker.apply(1)
    machine.handle([Lost(CHIEF)], 0.0)
    again = Talk(machine, Caller("chief 0", "another process"), origin="another")
    refused("no array a", again.read, "a")
    refused("another coordinator has begun", worker.apply, 2)
    refused("another coordinator has begun", Talk, machine, WORKER)
    again.prepare()
    assert not Talk(machine, WORKER, origin="another").apply(1)[0].repeated
    assert machine.statistics(0.0).version == 1


def test_another_program_of_the_same_process_begins_anew(machine, chief):
    again = Talk(machine, Caller(CHIEF.task, CHIEF.run, "5"), origin="another")
    refused("no array a", again.read, "a")
    refused("another coordinator has begun", chief.pull)


def test_the_end_of_the_job(machine, chief):
    worker = Talk(machine, WORKER)
    chief.ask(End())
    assert machine.ended
    assert worker.ask(messages.Pull(function="look"))[0] == Ended()
    assert Talk(machine, OTHER).joined == Ended()
    assert worker.ask(Stats())[0].variables == 3


def test_a_server_of_no_function_has_no_signature(chief):
    assert chief.ask(messages.Describe(function="unknown")) == (messages.Described(), ())
    (described,) = chief.ask(messages.Describe(function="add"))[1]
    assert msgspec.msgpack.decode(described.tobytes(), type=FunctionSignature) == FunctionSignature(
        (A, B), ADD.pushed, changes=True
    )


def test_memory_is_counted_over_all_arrays():
    chief = Talk(made(NumPyDevice(limit=40)))
    chief.create((A, 0.0))
    refused("too large", chief.create, (ArraySpec("c", (5,), "float32"), 0.0))
    chief.create((B, 0.0))
    refused(
        "too large",
        chief.register,
        StoredFunction(fingerprint="f", pushed=(B,), updates=("a",), update=b"adds"),
    )


def trained(machine, caller=CHIEF):
    """Join as one who trains by a plan, and return what answers the offer of that."""
    plan = Plan(pulled=(ArraySpec("w", (2,), "float32"),))
    join = messages.Join(plan="unknown", versions=VERSIONS, starts=caller == CHIEF)
    machine.handle([Asked(caller, join, [])], 0.0)
    return machine.handle([Asked(caller, messages.Offer(), [packed(plan)])], 0.0)[0].message


def test_a_plan_where_a_coordinator_has_variables(machine, chief):
    assert "variables of a coordinator's program" in trained(machine, OTHER).text
    assert chief.first("a") == 0.0


def test_a_coordinator_where_workers_train_by_a_plan(machine):
    assert trained(machine, OTHER).known
    refused("worker 1 is the coordinator of a job on this server, or trains by a plan", Talk, machine)
    machine.handle([Lost(OTHER)], 0.0)
    Talk(machine).prepare()
    assert "variables of a coordinator's program" in trained(machine, OTHER).text


def test_a_worker_of_a_coordinator_trains_by_no_plan(machine, chief):
    for message in (messages.TakeTicket(), messages.GiveBack()):
        refused("is of one who trains by a plan", chief.ask, message)
    for message in (messages.Pull(), messages.Push(number=1)):
        refused("this server has no plan yet", chief.ask, message)
