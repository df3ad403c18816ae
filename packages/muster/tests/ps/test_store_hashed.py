"""Hashed tables of a store: rows by ids of 64 bits, which come and go."""

import functools

import msgspec
import numpy as np
import pytest
from store_job import client, kept, saved, serving
from store_values import COUNT, USE, WORKER, A, Talk, full, made

from muster.ps import _messages as messages
from muster.ps._array_spec import ArraySpec
from muster.ps._bundles import bundle, packed, unbundled
from muster.ps._statistics import TableStatistics
from muster.ps.contents import StoredArray, StoredFunction, StoredHash, StoredName
from muster.ps.tables import Constant, Keeping, SlotSpec, TableSpec, owners

SPEC = TableSpec(name="ids", shape=(2,), initial=Constant(1.0), slots=(SlotSpec("n", ()),))
TABLE = StoredHash(name="hashed", server=0, spec=SPEC)
HASHED_USE = msgspec.structs.replace(USE, columns=("hashed",), start=0, slots=1)
TRAIN = StoredFunction(fingerprint="train", tables=(HASHED_USE,))
FAR = 1 << 62


def refused(match, call, *args, **options):
    with pytest.raises(RuntimeError, match=match):
        call(*args, **options)


def create(chief, *tables):
    return chief.change(messages.CreateHashed, [packed(tables)])


def prepare(machine, table=TABLE):
    chief = Talk(machine)
    chief.create((COUNT, 1), (A, 0.0))
    create(chief, table)
    chief.register(TRAIN)
    return chief


def push(worker, closure, ids, value=1.0):
    """Add to rows; the slot counts."""
    buffers = [np.array(ids, np.int64), np.ones(1, np.float32), np.full(2 * len(ids), value, np.float32)]
    return worker.ask(messages.Push(function="train", number=closure, counts=(len(ids),)), buffers)[0]


def read(talk, name="hashed", count=100):
    """The rows and slots of a table by id."""
    start, found = 0, {}
    while not found or start:
        message = messages.ReadHashed(name=name, start=start, count=count)
        said, buffers = talk.ask(message)
        ids, rows, slots = (array for _, array in unbundled(buffers))
        found |= {key: (row[0], slot) for key, row, slot in zip(ids.tolist(), rows, slots, strict=True)}
        start = said.next
        if not len(ids):
            break
    return found


def test_rows_appear_at_their_first_push():
    machine = made()
    prepare(machine)
    worker = Talk(machine, WORKER)
    assert worker.rows(-FAR, 5, FAR).tolist() == [[1, 1]] * 3
    push(worker, 1, [-FAR, 5])
    said = push(worker, 1, [-FAR, 5])
    assert said.repeated
    push(worker, 2, [5])
    assert worker.rows(-FAR, 5, FAR).tolist() == [[2, 2], [3, 3], [1, 1]]
    assert read(worker) == {-FAR: (2, 1), 5: (3, 2)}
    (counts,) = machine.statistics(0.0).tables
    assert counts == TableStatistics(
        name="hashed", rows=2, candidates=0, admitted=2, evicted=0, nbytes=counts.nbytes
    )
    assert machine.statistics(0.0).nbytes == counts.nbytes + A.nbytes + COUNT.nbytes


def test_rows_are_admitted_and_given_up():
    machine = made()
    table = msgspec.structs.replace(TABLE, keeping=Keeping(admit_after=2, max_age=3))
    prepare(machine, table)
    worker = Talk(machine, WORKER)
    push(worker, 1, [5, 7])
    assert worker.rows(5, 6).tolist() == [[1, 1], [0, 0]]
    push(worker, 2, [5])
    assert worker.rows(5).tolist() == [[2, 2]]
    for closure in range(3, 8):
        push(worker, closure, [])
    (counts,) = machine.statistics(0.0).tables
    assert (counts.rows, counts.candidates, counts.admitted, counts.evicted) == (0, 0, 1, 1)


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([7, 5], "its ids of rows of hashed must be ascending, each once"),
        (
            [int(np.arange(50)[owners(np.arange(50), 2) == 0][0])],
            "of table ids is not in part 1 of 2, but in part 0",
        ),
        (
            sorted(np.arange(50)[owners(np.arange(50), 2) == 1][:5].tolist()),
            "a push changes 5 rows .*Raise max_rows",
        ),
    ],
    ids=["order", "another server's", "too many"],
)
def test_pushes_that_do_not_fit_change_nothing(ids, text):
    machine = made()
    table = msgspec.structs.replace(TABLE, part=1, parts=2, keeping=Keeping(max_rows=4))
    chief = prepare(machine, table)
    chief.create(
        (ArraySpec("rows", (10, 2), "float32"), 0.0), (ArraySpec("rows/slot", (10,), "float32"), 0.0)
    )
    chief.register(StoredFunction(fingerprint="both", tables=(USE, HASHED_USE)))
    worker = Talk(machine, WORKER)
    one, rows = np.ones(1, np.float32), np.ones(2 * len(ids), np.float32)
    buffers = [np.array([101, *ids]), one, np.ones(2, np.float32), one, rows]
    message = messages.Push(function="both", number=1, counts=(1, len(ids)))
    refused(text, worker.ask, message, buffers)
    assert not worker.read("rows")[0].any()
    assert machine.statistics(0.0).version == 0
    assert machine.statistics(0.0).tables[0].rows == 0


def test_tables_are_created_once():
    machine = made()
    chief = prepare(machine)
    worker = Talk(machine, WORKER)
    push(worker, 1, [5])
    create(chief, TABLE, msgspec.structs.replace(TABLE, name="more"))
    assert len(read(worker)) == 1
    refused("another table or array hashed is here", create, chief, msgspec.structs.replace(TABLE, parts=2))
    refused("another table or array a is here", create, chief, msgspec.structs.replace(TABLE, name="a"))
    refused(
        r"its array hashed \(int32\[\]\) is here already, as a hashed table",
        chief.create,
        (ArraySpec("hashed", (), "int32"), 0),
    )
    refused("it is not the coordinator", create, worker, TABLE)
    chief.delete("hashed")
    refused("no function train", push, worker, 2, [5])
    refused("no hashed table hashed on this server. Create it first", read, worker)


MORE = msgspec.structs.replace(
    TABLE, spec=msgspec.structs.replace(SPEC, slots=(*SPEC.slots, SlotSpec("more", (2,), initial=4.0)))
)


def columns(talk, ids):
    """All that a table keeps for ids."""
    _, buffers = talk.ask(messages.ReadHashed(name="hashed", start=0, count=100))
    found, *arrays = (array for _, array in unbundled(buffers))
    return [array[np.searchsorted(found, ids)].tolist() for array in arrays]


@pytest.mark.parametrize("restarts", [False, True])
def test_slots_may_come_later(restarts, tmp_path):
    machine, keeper = kept(tmp_path / "store", updates=1)
    chief = prepare(machine)
    push(chief, 1, [5])
    if restarts:
        saved(machine, keeper)
    create(chief, MORE)
    create(chief, MORE)
    use = msgspec.structs.replace(HASHED_USE, slots=2)
    chief.register(msgspec.structs.replace(TRAIN, fingerprint="more", tables=(use,)))
    if restarts:  # the slot is in the journal, and then in a snapshot
        for _ in range(2):
            machine, keeper = kept(tmp_path / "store", updates=1)
            chief = Talk(machine, client="again")
            push(chief, 100, [50])
            saved(machine, keeper)
    assert columns(chief, [5]) == [[[2, 2]], [1], [[4, 4]]]
    buffers = [np.array([5, 7]), np.ones(1, np.float32), np.ones(4, np.float32)]
    chief.ask(messages.Push(function="more", number=9, counts=(2,)), buffers)
    push(chief, 10, [7])  # by a function that takes a slot less
    assert columns(chief, [5, 7]) == [[[3, 3], [3, 3]], [2, 2], [[5, 5], [5, 5]]]
    refused("another table or array hashed is here", create, chief, TABLE)


def test_rows_are_assigned_with_what_is_noted_of_them():
    machine = made()
    chief = prepare(machine, msgspec.structs.replace(TABLE, keeping=Keeping(admit_after=3, max_age=8)))
    push(chief, 1, [99])
    assign = functools.partial(messages.AssignHashed, name="hashed")

    def given(*arrays):
        named = zip(("ids", "0", "1", "2"), map(np.array, arrays), strict=False)
        return bundle([(ArraySpec(name, each.shape, each.dtype.name), each) for name, each in named])

    row, slot = np.ones((1, 2), np.float32), np.ones(1, np.float32)
    ids, notes = np.array([5]), np.array([[100, 7]], np.uint32)
    none = given(ids[:0], row[:0], slot[:0])
    chief.change(functools.partial(assign, clears=True, clock=104), none)
    chief.change(functools.partial(assign, noted=True), given(ids, notes, row, slot))
    waiting = given(np.array([6]), np.array([[104, 2]], np.uint32))
    chief.change(functools.partial(assign, waiting=True), waiting)
    (counts,) = machine.statistics(0.0).tables
    assert (counts.rows, counts.candidates) == (1, 1)
    assert chief.rows(5, 6, 99).tolist() == [[1, 1], [1, 1], [0, 0]]
    for closure in range(2, 6):
        push(chief, closure, [])  # 5 is 8 pushes old then
    assert set(read(chief)) == {5}
    push(chief, 6, [6])
    assert set(read(chief)) == {6}
    refused("of other arrays", chief.change, functools.partial(assign, waiting=True), given(ids, row))
    with pytest.raises(RuntimeError, match="of other arrays"):
        chief.change(functools.partial(assign, noted=True), given(ids, row, slot))


def test_what_describes_no_table():
    chief = Talk(made())
    table = msgspec.to_builtins(TABLE)
    for wrong in ({"part": 1}, {"spec": table["spec"] | {"shape": [0]}}, {"keeping": {"max_age": 0}}):
        refused("its CreateHashed is none", chief.change, messages.CreateHashed, [packed([table | wrong])])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"columns": ("hashed", "a")}, "it names arrays or a first row of hashed, which is a hashed table"),
        ({"start": 5}, "it names arrays or a first row of hashed"),
        ({"slots": 2}, "it takes 2 slots of hashed, which has 1 here"),
        ({"reads": ("hashed",)}, "the update of rows of hashed reads hashed, which is not on this server"),
        ({"update": b"nonsense"}, "its update of rows is none"),
    ],
)
def test_uses_that_do_not_fit(changes, text):
    chief = prepare(made())
    use = msgspec.structs.replace(HASHED_USE, **changes)
    refused(text, chief.register, msgspec.structs.replace(TRAIN, fingerprint="wrong", tables=(use,)))


def test_rows_are_read_and_assigned_in_pieces():
    machine, other = made(), made()
    prepare(machine)
    worker = Talk(machine, WORKER)
    push(worker, 1, range(100))
    push(worker, 2, range(50))
    wanted = read(worker, count=7)
    assert len(wanted) == 100
    chief = prepare(other)
    push(chief, 1, [1000])
    ids = np.arange(100)
    rows = np.array([[wanted[each][0]] * 2 for each in range(100)], np.float32)
    slots = np.array([wanted[each][1] for each in range(100)], np.float32)
    for begin in (0, 50):
        some = slice(begin, begin + 50)
        given = {"ids": ids[some], "0": rows[some], "1": slots[some]}
        buffers = bundle(
            [(ArraySpec(name, each.shape, each.dtype.name), each) for name, each in given.items()]
        )
        message = messages.AssignHashed(name="hashed", clears=not begin, sequence=10 + begin)
        chief.ask(message, buffers)
    assert read(chief) == wanted
    refused(
        "its 1 rows of hashed are of other arrays",
        chief.ask,
        messages.AssignHashed(name="hashed", sequence=99),
        bundle(
            [
                (ArraySpec("ids", (1,), "int64"), np.array([5])),
                (ArraySpec("0", (1, 3), "float32"), np.zeros((1, 3), np.float32)),
            ]
        ),
    )
    refused(
        "its AssignHashed is none: it does not begin with the ids of its rows",
        chief.ask,
        messages.AssignHashed(name="hashed", sequence=99),
        bundle([(A, full(A, 1))]),
    )


def test_a_server_that_was_killed_goes_on_with_its_rows(tmp_path):
    machine, keeper = kept(tmp_path / "store", updates=1)
    chief = prepare(machine, msgspec.structs.replace(TABLE, keeping=Keeping(max_age=8, admit_after=2)))
    worker = Talk(machine, WORKER)
    for closure in range(12):
        push(worker, closure, [closure // 2, 50, 1000 + closure])
        if closure in (4, 7, 10):
            saved(machine, keeper)
        if closure == 10:
            wanted, counts = read(worker), machine.statistics(0.0).tables[0]
    create(chief, msgspec.structs.replace(TABLE, name="more"))
    again, _ = kept(tmp_path / "store")
    restored = Talk(again, WORKER)
    assert read(restored) == wanted
    found = again.statistics(0.0).tables
    assert [each.name for each in found] == ["hashed", "more"]
    assert (found[0].rows, found[0].candidates) == (counts.rows, counts.candidates)
    assert [push(restored, closure, [50]).repeated for closure in (10, 11)] == [True, False]
    for closure in range(12, 30):
        push(worker, closure, [50])
        push(restored, closure, [50])
    # Rows go at the same push, since the clock goes on. The one before was killed after one more push.
    assert set(read(restored)) == set(read(worker)) == {50}


def test_a_client_reads_and_assigns_rows():
    tables = [msgspec.structs.replace(TABLE, server=part, part=part, parts=2) for part in range(2)]
    ids = np.arange(40) * 7919
    mine = [ids[owners(ids, 2) == part] for part in range(2)]
    with serving() as one, serving() as two, client(one, two) as chief:
        chief.create([(StoredArray("count", part, (), "int32"), full(COUNT, 1)) for part in range(2)])
        chief.create_hashed(tables)
        chief.register([TRAIN, TRAIN])
        rows = [[(part, [np.full((len(part), 2), 2.0, np.float32)])] for part in mine]
        chief.apply("train", 1, 0, [[np.float32(1.0)]] * 2, rows)
        assert [part[0].tolist() for part in chief.pull("train", [[part[:1]] for part in mine])] == [
            [[3, 3]]
        ] * 2
        for server, part in enumerate(mine):
            pieces = list(chief.hashed_rows(StoredName(server, "hashed"), 6))
            assert np.sort(np.concatenate([piece for piece, _ in pieces])).tolist() == part.tolist()
            assert all(set(rows.reshape(-1)) == {3.0} and set(slots) == {1.0} for _, (rows, slots) in pieces)
            few = [np.zeros((2, 2), np.float32), np.zeros(2, np.float32)]
            chief.assign_hashed(StoredName(server, "hashed"), part[:2], few, clears=True)
        assert [each.tables[0].rows for each in chief.statistics()] == [2, 2]
        assert list(chief.hashed_rows(StoredName(0, "hashed"), 6))[0][0].tolist() == mine[0][:2].tolist()
