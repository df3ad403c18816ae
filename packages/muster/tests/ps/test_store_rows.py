"""Tables of a store of which functions use some rows at a time."""

import functools

import msgspec
import numpy as np
import pytest
from store_values import (
    ADD,
    CHIEF,
    COUNT,
    LOOK,
    OTHER,
    ROWS,
    SLOT,
    TRAIN,
    USE,
    WORKER,
    A,
    B,
    Talk,
    full,
    made,
)

from muster.ps import _messages as messages
from muster.ps._array_spec import ArraySpec
from muster.ps._bundles import bundle, packed
from muster.ps.contents import FunctionSignature, StoredFunction, TableSignature

BY_ROWS = ("rows", "rows/slot")
SEEN = StoredFunction(
    fingerprint="seen",
    takes=("b",),
    tables=(msgspec.structs.replace(USE, update=b"", reads=(), pushed=(), row_pushes=()),),
)


@pytest.fixture(params=[(), BY_ROWS], ids=["held when registered", "held when created"])
def machine(request):
    machine = made()
    Talk(machine).prepare_rows(by_rows=request.param)
    return machine


@pytest.fixture
def chief(machine):
    chief = Talk(machine)
    chief.sequence = chief.joined.sequence
    return chief


@pytest.fixture
def worker(machine):
    return Talk(machine, WORKER)


def refused(match, call, *args, **options):
    with pytest.raises(RuntimeError, match=match):
        call(*args, **options)


def test_rows_are_looked_up_and_changed_and_no_others(worker, chief):
    said, (values,) = worker.push(1, [101, 104, 109], [1.0, 2.0, 3.0])
    assert said == messages.Values(version=1)
    assert values.tolist() == [1.0] * 6 + [0.0] * 4  # what the function takes, and no rows
    assert worker.rows(100, 101, 104, 109).tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]
    (slot,) = chief.read("rows/slot")
    assert slot.tolist() == [0, 1, 0, 0, 1, 0, 0, 0, 0, 1]


def test_a_pull_brings_what_the_function_takes_and_its_rows(worker):
    message = messages.Pull(function="train", counts=(2,))
    values, rows = worker.ask(message, [np.array([100, 109])])[1]
    assert (values.size, rows.size, rows.dtype) == (10, 4, np.float32)
    assert [each.size for each in worker.pull("train")] == [10]
    assert worker.rows().shape == (0, 2)


def test_rows_count_once_with_their_closure(machine, worker):
    worker.push(1, [101], [1.0])
    said, (values,) = Talk(machine, OTHER).push(1, [101], [1.0])
    assert said == messages.Values(version=1, repeated=True)
    assert values[0] == 1.0
    assert worker.rows(101).tolist() == [[1, 1]]
    worker.push(2, [101], [1.0])
    assert worker.rows(101).tolist() == [[3, 3]]  # the second one is counted twice


def test_updates_of_rows_read_what_was_there_before_the_functions_own(worker):
    worker.push(1, [101], [1.0])  # count is 1
    worker.push(2, [102], [1.0])
    worker.push(3, [103], [1.0], factor=10.0)
    assert worker.rows(101, 102, 103)[:, 0].tolist() == [1, 2, 30]


def test_what_was_pulled_does_not_change(worker):
    before = worker.rows(101)
    worker.push(1, [101], [1.0])
    assert before.tolist() == [[0, 0]]


def test_no_rows_can_be_pushed(worker):
    worker.push(1, [], [])
    assert worker.first("a") == 1.0


def test_rows_that_are_looked_up_only(worker, chief):
    chief.register(SEEN)
    worker.push(1, [105], [4.0])
    assert worker.rows(104, 105, function="seen").tolist() == [[0, 0], [4, 4]]
    refused("changes nothing on this server", worker.apply, 2, function="seen")


def test_tables_alone_can_be_changed(worker, chief):
    chief.register(StoredFunction(fingerprint="alone", tables=(USE,)))
    buffers = [np.array([103]), np.ones(1, np.float32), np.ones(2, np.float32)]
    assert worker.ask(messages.Push(function="alone", number=1, counts=(1,)), buffers)[1] == ()
    assert worker.rows(103).tolist() == [[1, 1]]


def test_several_tables_of_a_function(worker, chief):
    chief.create((ArraySpec("more", (4, 2), "float32"), 5.0))
    more = msgspec.structs.replace(USE, columns=("more",), reads=(), pushed=(), start=0)
    chief.register(StoredFunction(fingerprint="both", tables=(more, USE)))
    ids = np.array([1, 3, 100, 101, 102])
    message = messages.Push(function="both", number=1, counts=(2, 3))
    worker.ask(
        message, [ids, np.ones(4, np.float32), np.full(1, 2.0, np.float32), np.arange(6, dtype=np.float32)]
    )
    first, second = worker.ask(messages.Pull(function="both", counts=(2, 3)), [ids])[1]
    assert (first.tolist(), second.tolist()) == ([6, 6, 6, 6], [0, 2, 4, 6, 8, 10])


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([99], "id 99 is of no row of rows: ids must be at least 100 and less than 110 here. Check the voc"),
        ([104, 110], "id 110 is of no row of rows"),
        ([-(2**63)], "id -9223372036854775808 is of no row"),
        (
            [104, 103],
            "its ids of rows of rows must be ascending, each once: add up what is pushed for one first",
        ),
        ([104, 104], "must be ascending, each once"),
    ],
)
def test_ids_that_are_refused_change_nothing(worker, ids, text):
    refused(text, worker.rows, *ids)
    refused(text, worker.push, 1, ids, [1.0] * len(ids))
    assert worker.first("a") == 0.0
    assert not worker.push(1, [101], [1.0])[0].repeated


def test_other_buffers_than_those_of_rows(worker):
    whole, ids, factor = np.zeros(6, np.float32), np.array([101, 102]), np.zeros(1, np.float32)
    apply = messages.Push(function="train", number=1, counts=(2,))
    for wrong in (
        [whole, ids, factor],
        [whole, ids, factor, np.zeros(3, np.float32)],
        [whole, ids, factor, np.zeros(4)],
        [whole, ids[:1], factor, np.zeros(4, np.float32)],
        [whole, ids.astype(np.int32), factor, np.zeros(4, np.float32)],
    ):
        refused(
            "other elements are pushed than .* 6 of float32, 2 of int64, 1 of float32, 4 of float32",
            worker.ask,
            apply,
            wrong,
        )
    for counts in ((), (1, 1)):
        wrong = messages.Push(function="train", number=1, counts=counts)
        refused(f"rows of {len(counts)} tables for a function with 1", worker.ask, wrong, [whole, ids])
    pull = messages.Pull(function="train", counts=(2,))
    for wrong in ([], [ids[:1]], [ids.astype(np.int32)], [ids, ids]):
        refused("other ids are sent than .*; it takes 2 of int64", worker.ask, pull, wrong)
    refused("rows of 2 tables", worker.ask, messages.Pull(function="train", counts=(1, 1)), [ids])
    refused("rows of 0 tables", worker.ask, messages.Pull(function="train"), [ids])


@pytest.mark.parametrize("name", ["rows", "a"])
def test_rows_are_read_and_assigned_by_their_numbers(worker, chief, name):
    chief.assign_rows(name, 1, [5.0, 6.0, 7.0, 8.0])
    assert worker.read_rows(name, 0, 3).tolist() == [[0, 0], [5, 6], [7, 8]]
    chief.assign_rows(name, 2, [1.0, 1.0], sequence=chief.sequence)  # its answer was lost
    assert worker.read_rows(name, 2, 1).tolist() == [[7, 8]]
    refused("it is not the coordinator", worker.assign_rows, name, 0, [1.0, 1.0])


@pytest.mark.parametrize(
    ("name", "start", "text"),
    [
        ("rows", 10, r"its rows from 10 on are 2 elements.*others|rows \(.*\) has no 1 rows from 10 on"),
        ("nothing", 0, "no array nothing on this server. Create it first"),
        ("count", 0, r"its array count \(int32\[\]\) has no rows"),
    ],
)
def test_rows_that_cannot_be_read_or_assigned(chief, name, start, text):
    refused(text, chief.read_rows, name, start, 1)
    refused(text, chief.assign_rows, name, start, [1.0, 1.0])


def test_rows_of_another_kind_are_not_assigned(chief):
    refused(
        r"its rows from 1 on are 3 elements of float32, and those of rows \(float32\[10, 2\]\) are others",
        chief.assign_rows,
        "rows",
        1,
        [1.0] * 3,
    )
    for buffers in ([], [np.ones(2, np.float32), np.ones(2)], [np.ones(2)]):
        refused(
            "buffers where there must be|elements of float64",
            chief.ask,
            messages.AssignRows(name="rows", start=0, sequence=9),
            buffers,
        )
    assert not chief.first("rows")


def test_tables_that_come_in_parts(worker, chief):
    spec, rows = ArraySpec("parts", (4, 2), "float32"), np.arange(8, dtype=np.float32)
    chief.change(messages.Reserve, [packed([spec, ROWS])])
    refused("rows from 0 on of parts come first", chief.assign_rows, "parts", 2, rows[4:])
    chief.assign_rows("parts", 0, rows[:6])
    chief.assign_rows("parts", 3, rows[6:])
    assert worker.read("parts")[0].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert not worker.read("rows")[0].any()  # which was there
    refused("is here already", chief.change, messages.Reserve, [packed([ArraySpec("a", (4, 2), "float32")])])
    for wrong, text in (
        (ArraySpec("no", (), "float32"), "no rows"),
        (ArraySpec("no", (0, 2), "float32"), "no rows"),
        (ArraySpec("no", (1 << 20, 2), "float32"), "too large"),
        (ArraySpec("no", (-1, -2), "float32"), "negative size"),
    ):
        refused(text, chief.change, messages.Reserve, [packed([wrong])])
    refused("it is not the coordinator", worker.change, messages.Reserve, [packed([spec])])


def test_tables_whose_rows_are_made_here(worker, chief):
    spec, function = ArraySpec("made", (4, 2), "float32"), [np.frombuffer(b"numbers", np.uint8)]
    chief.change(messages.Reserve, [packed([spec])])

    def make(name, first=7):
        return functools.partial(messages.Make, name=name, first=first)

    chief.change(make("made"), function)
    assert worker.read("made")[0].tolist() == [[7, 7], [8, 8], [9, 9], [10, 10]]
    refused("no array makes by rows", chief.change, make("makes"), function)
    refused("it is no function", chief.change, make("made"), [np.zeros(1, np.uint8)])
    refused("not the coordinator", worker.change, make("made"), function)


def test_a_table_is_assigned_and_read_as_a_whole(worker, chief):
    chief.assign(ROWS, 3.0)
    assert worker.rows(100, 109).tolist() == [[3, 3], [3, 3]]
    (whole,) = chief.read("rows")
    worker.push(1, [100], [1.0])
    assert set(np.unique(whole)) == {3.0}


def test_a_table_that_other_functions_use_as_a_whole(worker, chief):
    whole = msgspec.structs.replace(
        ADD,
        fingerprint="whole",
        takes=("rows",),
        reads=("rows",),
        updates=("rows", "count"),
        pushed=(ArraySpec("p", ROWS.shape, "float32"),),
    )
    chief.register(whole)
    worker.push(1, [101], [1.0])
    taken = worker.ask(messages.Push(function="whole", number=2), [np.ones(20, np.float32)])[1]
    assert taken[0][:4].tolist() == [1, 1, 2, 2]
    assert worker.rows(100, 101).tolist() == [[1, 1], [2, 2]]
    assert worker.pull("whole")[0][:4].tolist() == [1, 1, 2, 2]
    assert chief.first("count") == 3


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"columns": ()}, "it uses rows of a table without arrays"),
        ({"columns": ("rows", "rows")}, "it uses rows of rows twice"),
        ({"columns": ("no",)}, "it uses rows of no, which is not on this server"),
        ({"columns": ("rows", "b")}, r"it uses b \(float32\[4\]\) beside rows, which has 10 rows"),
        ({"columns": ("count",)}, r"it uses rows of count \(int32\[\]\), which has none"),
        ({"columns": ("empty",)}, r"it uses rows of empty \(float32\[0, 2\]\), which has none"),
        ({"reads": ("no",)}, "the update of rows of rows reads no, which is not"),
        ({"update": b""}, "it has no update for what is pushed for rows of rows"),
        ({"update": b"nonsense"}, "its update of rows is none"),
        ({"row_pushes": (ArraySpec("g", (1,), "object"),)}, "not numeric"),
        ({"pushed": (B, B)}, "pushed arrays have the name b twice"),
    ],
)
def test_tables_that_do_not_fit(machine, chief, changes, text):
    chief.create((ArraySpec("empty", (0, 2), "float32"), 0.0), by_rows=("empty",))
    use = msgspec.structs.replace(USE, **changes)
    wrong = msgspec.structs.replace(TRAIN, fingerprint="wrong", tables=(use,))
    refused(f"its function cannot be used: .*{text}", chief.register, wrong)
    refused("no function", chief.pull, "wrong")


def test_two_updates_of_a_table(chief):
    wrong = msgspec.structs.replace(TRAIN, fingerprint="wrong", tables=(USE, USE))
    refused("it changes rows of rows by two updates", chief.register, wrong)
    seen = msgspec.structs.replace(TRAIN, fingerprint="seen too", tables=(USE, *SEEN.tables))
    chief.register(seen)


def test_a_function_that_is_registered_again_may_have_other_bytes(chief):
    chief.register(
        msgspec.structs.replace(TRAIN, tables=(msgspec.structs.replace(USE, update=b"other places"),))
    )
    other = msgspec.structs.replace(TRAIN, tables=(msgspec.structs.replace(USE, start=1),))
    refused("another function with its fingerprint", chief.register, other)


def test_functions_go_with_the_slots_that_they_need(machine, chief, worker):
    chief.delete("rows/slot")
    refused("no function train", worker.rows, 101)
    chief.create((SLOT, 0.0))
    chief.register(TRAIN)
    worker.push(1, [101], [1.0])
    assert worker.first("rows/slot") == 0.0
    assert machine.statistics(0.0).nbytes == sum(each.nbytes for each in (A, B, COUNT, ROWS, SLOT))


def test_workers_are_told_of_tables(chief):
    (described,) = chief.ask(messages.Describe(function="train"))[1]
    signature = msgspec.msgpack.decode(described.tobytes(), type=FunctionSignature)
    row = ArraySpec("rows", (2,), "float32")
    assert signature.tables == (TableSignature(row, USE.row_pushes, USE.pushed),)


def test_a_second_table_is_not_made_of_one_that_is_there(chief, worker):
    worker.push(1, [101], [1.0])
    chief.create((ROWS, 9.0), by_rows=("rows",))
    chief.create((LOOKED := ArraySpec("looked", (2, 2), "float32"), 9.0), by_rows=("looked", "unknown"))
    assert worker.rows(100, 101).tolist() == [[0, 0], [1, 1]]
    chief.change(messages.Assign, bundle([(LOOKED, full(LOOKED, 2.0))]))
    assert chief.first("looked") == 2.0
    chief.register(LOOK)
    assert Talk(chief.machine, CHIEF).pull("look")[0].size == 10


def test_a_push_brings_the_rows_that_it_asks_for(worker):
    buffers = [np.ones(6, np.float32), np.array([101]), np.ones(1, np.float32), np.ones(2, np.float32)]
    message = messages.Push(function="train", number=1, counts=(1,), asks=(2,))
    (*_, rows) = worker.ask(message, [*buffers, np.array([100, 101])])[1]
    assert rows.tolist() == [0, 0, 1, 1]  # with what this push changes
    refused("id 99 is of no row", worker.ask, message, [*buffers, np.array([99, 101])])
    assert worker.ask(message, [*buffers, np.array([101, 102])])[1][-1].tolist() == [1, 1, 0, 0]
