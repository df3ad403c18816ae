"""Tables of an Estimator's plan: rows are looked up, pushed, and kept in snapshots and checkpoints."""

import re

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
    first_values,
    read_in,
    reading,
)

from muster.checkpoint import FileRecord
from muster.ps import _messages as messages
from muster.ps import _part_messages as parts
from muster.ps._array_spec import ArraySpec
from muster.ps._keeper import Keeper
from muster.ps._machine import Machine
from muster.ps._plan import Plan, PlanTable, fingerprint
from muster.ps._recovery import Found
from muster.ps._replies import Asked
from muster.ps.contents import TableUse

FILE = "variables-01234567-ps-0.safetensors"
COLUMNS = ArraySpec("table[5:15]", (10, 2), "float32"), ArraySpec("slot[5:15]", (10, 2), "float32")


def plan(max_staleness=None, columns=COLUMNS, update=b"adds rows"):
    """Ten rows of two, which are those from 5 on of a table, and their slots, beside what `added` has."""
    use = TableUse(
        columns=tuple(each.name for each in columns),
        update=update,
        reads=("kept float32",),
        row_pushes=(ArraySpec("push 2", (2,), "float32"), ArraySpec("push 3", (1,), "bool")),
        pushed=(ArraySpec("push 4", (), "float32"),),
        start=5,
    )
    dense = added(max_staleness=max_staleness)
    return Plan(
        pulled=dense.pulled,
        kept=dense.kept,
        pushed=dense.pushed,
        update=dense.update,
        tables=(PlanTable(columns=columns, use=use),),
        max_staleness=max_staleness,
    )


def ask(server, caller, message, arrays=()):
    replies = server.handle([Asked(caller, message, list(arrays))], 0.0)
    return next((each for each in replies if each.caller == caller), None)


def refused(server, caller, message, arrays=()):
    answer = ask(server, caller, message, arrays).message
    assert isinstance(answer, messages.Refused), answer
    return answer.text


def started(of, **options):
    server = Machine(
        AddingDevice(), **{"name": "ps 0", "run": "1", "versions": VERSIONS, "keeps_step": True, **options}
    )
    for caller in (CHIEF, WORKER, OTHER):
        starts = caller == CHIEF
        ask(server, caller, messages.Join(plan=fingerprint(of), versions=VERSIONS, starts=starts))
    assert ask(server, CHIEF, messages.Offer(), as_buffer(of)).message.known
    return server


@pytest.fixture
def server():
    server = started(plan())
    initialize(server, plan())
    return server


def initialize(server, of, value=1.0):
    for message, arrays in first_values(of, value):
        assert ask(server, CHIEF, message, arrays).message == messages.Done()


def look_up(server, ids, caller=WORKER):
    ids = np.array(ids, np.int64)
    return ask(server, caller, messages.Pull(counts=(len(ids),), whole=False), [ids])


def rows(server, ids):
    return look_up(server, ids).arrays[0].reshape(-1, 2)


def push(server, caller, sequence, ids, value, **fields):
    ids = np.array(ids, np.int64)
    by_rows = [ids, np.ones(1, np.float32), np.full(2 * len(ids), value, np.float32), np.ones(len(ids), bool)]
    message = messages.Push(number=sequence, counts=(len(ids),), **fields)
    return ask(server, caller, message, [*filled(plan().pushed, value), *by_rows])


def test_rows_are_looked_up_and_changed_by_their_numbers(server):
    assert rows(server, [5, 14]).tolist() == [[1, 1], [1, 1]]
    push(server, WORKER, 1, [6, 14], 2.0)
    assert rows(server, [5, 6, 14]).tolist() == [[1, 1], [3, 3], [3, 3]]
    assert look_up(server, []).arrays[0].size == 0
    assert look_up(server, [5]).message == messages.Values(version=2, origin="first")
    assert ask(server, WORKER, messages.Stats()).message.lookups == 4
    pushed_again = push(server, WORKER, 1, [6], 2.0).message  # its answer was lost
    assert pushed_again.version == 2
    assert rows(server, [6]).tolist() == [[3, 3]]


def test_everything_has_the_columns_of_tables(server):
    push(server, WORKER, 1, [7], 2.0)
    pulled, kept, table, slot = read_in(ask(server, WORKER, *reading(plan())))
    assert pulled[0] == 3.0
    assert kept.tolist() == [2.0]
    assert table.reshape(-1, 2)[:, 0].tolist() == [1, 1, 3, *[1] * 7]
    assert slot.reshape(-1, 2)[:, 0].tolist() == [1, 1, 2, *[1] * 7]
    before = table.copy()
    push(server, WORKER, 2, [5], 1.0)
    np.testing.assert_array_equal(table, before)  # what is sent does not change


@pytest.mark.parametrize(
    ("ids", "says"),
    [
        ([4], r"id 4 is of no row of table\[5:15\]: ids must be at least 5 and less than 15 here"),
        ([15], "id 15 is of no row"),
        ([-1], "id -1 is of no row"),
        ([6, 6], "must be ascending, each once"),
        ([7, 6], "must be ascending"),
    ],
)
def test_ids_that_are_none_are_refused_and_change_nothing(server, ids, says):
    assert re.search(says, look_up(server, ids).message.text)
    assert re.search(says, push(server, WORKER, 1, ids, 1.0).message.text)
    assert rows(server, range(5, 15)).tolist() == [[1, 1]] * 10
    assert ask(server, WORKER, messages.Pull()).arrays[0][0] == 1.0
    assert push(server, WORKER, 1, [6], 1.0).message.version == 2  # the number is free again


def test_what_does_not_fit_the_tables_is_refused(server):
    assert "rows of 2 tables for a function with 1" in refused(
        server, WORKER, messages.Push(number=1, counts=(1, 1))
    )
    wrong = messages.Pull(counts=(2,), whole=False), [np.array([5], np.int64)]
    assert "other ids are sent than its function takes: 1 of int64; it takes 2 of int64" in refused(
        server, WORKER, *wrong
    )
    waiting = started(plan())
    assert "no rows yet" in look_up(waiting, [5]).message.text
    other = added()
    assert "rows of 1 tables for a function with 0" in look_up(_initialized(other), [5]).message.text


def _initialized(of, **options):
    server = started(of, **options)
    initialize(server, of)
    return server


def test_plans_with_other_tables_are_told_apart():
    server = started(plan())
    for other, says in [
        (added(), r"it lacks the table's array table[5:15] (float32[10, 2])"),
        (plan(update=b"adds rows, otherwise"), "its arrays are the same, and its update differs"),
    ]:
        assert says in refused(server, WORKER, messages.Offer(), as_buffer(other))
    assert fingerprint(plan()) != fingerprint(added())


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (plan(update=b"nonsense"), "its update of rows is none"),
        (plan(columns=(COLUMNS[0], ArraySpec("slot", (9, 2), "float32"))), "which has 10 rows"),
        (plan(columns=(COLUMNS[0], COLUMNS[0])), "twice"),
    ],
)
def test_tables_that_cannot_be_are_refused(wrong, says):
    server = Machine(AddingDevice(), name="ps 0", run="1", versions=VERSIONS, keeps_step=True)
    ask(server, CHIEF, messages.Join(plan="none", versions=VERSIONS, starts=True))
    assert says in refused(server, CHIEF, messages.Offer(), as_buffer(wrong))
    assert ask(server, CHIEF, messages.Offer(), as_buffer(plan())).message.known


def test_a_round_adds_the_mean_of_what_workers_push_for_each_row():
    of = plan(max_staleness=0)
    server = _initialized(of, workers=2)
    for caller in (CHIEF, WORKER):
        ask(server, caller, messages.TakeTicket())
    members = messages.Round(1, (CHIEF.task, WORKER.task))
    assert push(server, CHIEF, 1, [5, 7], 2.0, round=members) is None  # it waits for the other
    assert rows(server, [5, 7]).tolist() == [[1, 1], [1, 1]]
    bad = push(server, WORKER, 1, [3], 4.0, round=members)
    assert "id 3 is of no row" in bad.message.text
    push(server, WORKER, 1, [7, 9], 4.0, round=members)
    # The row that one of the two has not looked up counts as zero in its push.
    assert rows(server, [5, 6, 7, 9]).tolist() == [[2, 2], [1, 1], [4, 4], [3, 3]]


def test_a_snapshot_has_the_rows_and_what_changes_meanwhile_stays_out(server):
    push(server, WORKER, 1, [6], 2.0)
    saved, arrays, pieces = server.snapshot(at=1.0)
    push(server, WORKER, 2, [6, 7], 5.0)
    given = list(pieces)
    pieces.close(True)
    restored = started(
        plan(), run="2", find=lambda origin: Found(saved, [*arrays], 1.0, given) if origin else None
    )
    seen = messages.Seen(origin="first", run="1", version=3, sequence=2)
    joined = ask(
        restored, WORKER, messages.Join(plan=fingerprint(plan()), versions=VERSIONS, seen=seen)
    ).message
    assert joined.initialized
    assert rows(restored, [5, 6, 7]).tolist() == [[1, 1], [3, 3], [1, 1]]
    _, _, changed = server.snapshot(at=2.0)
    assert not changed.whole  # only what differs, in blocks of two rows
    assert np.concatenate([piece.ids for piece in changed if piece.part == 0]).tolist() == [0, 1, 2, 3]
    changed.close(True)


def test_a_checkpoint_has_the_rows_as_they_were(server, tmp_path):
    save = parts.SavePart(plan=fingerprint(plan()), origin="first", folder=str(tmp_path), token="", file=FILE)
    assert server.has_rows
    part = server.begin_part(save, True, 0.0)
    push(server, WORKER, 1, [6], 2.0)
    assert sorted(part.arrays) == ["a", "b", "count"]
    assert part.tables == tuple(each.name for each in COLUMNS)
    assert isinstance(part.write(str(tmp_path), FILE), FileRecord)
    part.close(True)
    changed = server.begin_part(save, False, 0.0)
    assert changed.needs_base
    assert [piece.ids.tolist() for piece in changed.rows] == [[0, 1], [0, 1]]
    changed.close(True)


def test_first_rows_come_in_pieces_or_are_made_on_the_server():
    of = plan()
    table, slot = (each.name for each in COLUMNS)
    server = started(of)
    values = everything(of, 1.0)

    def fill(start, rows):
        piece = np.arange(2 * start, 2 * (start + rows), dtype=np.float32)
        return messages.AssignRows(name=table, start=start), [piece]

    assert "has 0 rows with values so far" in refused(server, CHIEF, messages.Initialize(), values)
    assert "rows from 0 on of table[5:15] come first" in refused(server, CHIEF, *fill(4, 2))
    for piece in (fill(0, 4), fill(0, 4), fill(4, 3), fill(7, 3)):  # the first one's answer was lost
        assert ask(server, CHIEF, *piece).message == messages.Done()
    assert "not the chief" in refused(server, WORKER, *fill(0, 4))
    function = [np.frombuffer(b"numbers", np.uint8)]
    assert "has 0 rows" in refused(server, CHIEF, messages.Initialize(), values)
    ask(server, CHIEF, messages.Make(name=slot, first=5), function)
    ask(server, CHIEF, messages.Initialize(origin="first"), values)
    assert rows(server, [5, 6, 14]).tolist() == [[0, 1], [2, 3], [18, 19]]
    *_, slots = read_in(ask(server, CHIEF, *reading(of)))
    assert slots.reshape(-1, 2)[:, 1].tolist() == [*range(5, 15)]
    push(server, WORKER, 1, [6], 1.0)
    assert "workers have changed since" in refused(server, CHIEF, *fill(0, 4))


@pytest.mark.parametrize(
    ("message", "arrays", "says"),
    [
        (
            messages.AssignRows(name="tabel", start=0),
            [np.zeros(2, np.float32)],
            "no table with an array tabel",
        ),
        (messages.AssignRows(name=COLUMNS[0].name, start=0), [np.zeros(3, np.float32)], "are others"),
        (messages.AssignRows(name=COLUMNS[0].name, start=0), [np.zeros(2, np.int32)], "are others"),
        (messages.AssignRows(name=COLUMNS[0].name, start=0), [], "0 buffers where there must be 1"),
        (messages.AssignRows(name=COLUMNS[0].name, start=9), [np.zeros(4, np.float32)], "are others"),
        (messages.Make(name="slots", first=0), [np.zeros(1, np.uint8)], "no table with an array slots"),
        (messages.Make(name=COLUMNS[1].name, first=0), [np.zeros(1)], "its Make must come in one buffer"),
        (messages.Make(name=COLUMNS[1].name, first=0), [np.zeros(1, np.uint8)], "it is no function"),
    ],
)
def test_first_rows_that_do_not_fit_are_refused(message, arrays, says):
    assert says in refused(started(plan()), CHIEF, message, arrays)


def test_a_push_asks_for_the_rows_of_the_next_batch(server):
    def pushed(sequence, ids, wanted, value=2.0):
        ids, wanted = np.array(ids, np.int64), np.array(wanted, np.int64)
        arrays = [*filled(plan().pushed, value), ids, np.ones(1, np.float32)]
        arrays += [np.full(2 * len(ids), value, np.float32), np.ones(len(ids), bool), wanted]
        message = messages.Push(number=sequence, counts=(len(ids),), asks=(len(wanted),))
        return ask(server, WORKER, message, arrays)

    answer = pushed(1, [6], [6, 9])
    assert answer.arrays[-1].reshape(-1, 2).tolist() == [[3, 3], [1, 1]]  # with what this push changes
    again = pushed(1, [6], [6, 9])
    assert again.arrays[-1].tolist() == answer.arrays[-1].tolist()
    assert "id 15 is of no row" in pushed(2, [6], [15]).message.text
    assert "must be ascending" in pushed(2, [6], [9, 6]).message.text
    assert rows(server, [6]).tolist() == [[3, 3]]  # nothing of it counted
    assert "rows of 2 tables" in refused(server, WORKER, messages.Push(number=2, counts=(0,), asks=(1, 1)))
    assert len(pushed(2, [], [5]).arrays) == 2


def test_rows_that_a_push_asks_for_are_those_after_its_round():
    of = plan(max_staleness=0)
    server = _initialized(of, workers=2)
    for caller in (CHIEF, WORKER):
        ask(server, caller, messages.TakeTicket())
    members = messages.Round(1, (CHIEF.task, WORKER.task))
    wanted = np.array([7, 9], np.int64)

    def pushed(caller, value):
        arrays = [*filled(of.pushed, value), np.array([7], np.int64), np.ones(1, np.float32)]
        arrays += [np.full(2, value, np.float32), np.ones(1, bool), wanted]
        message = messages.Push(number=1, counts=(1,), asks=(2,), round=members)
        return server.handle([Asked(caller, message, arrays)], 0.0)

    assert pushed(CHIEF, 2.0) == []
    wanted[:] = 8, 10  # where another push is received
    replies = {each.caller: each.arrays[-1].reshape(-1, 2).tolist() for each in pushed(WORKER, 4.0)}
    assert replies == {CHIEF: [[4, 4], [1, 1]], WORKER: [[1, 1], [1, 1]]}


@pytest.fixture
def keeper(tmp_path):
    def kept():
        return Keeper(tmp_path / "ps-0", None, None)

    return kept


@pytest.mark.parametrize("given", range(5))
def test_a_server_that_was_killed_has_the_first_values_that_it_was_given(keeper, given):
    """It is killed before, between or after the requests that give first values, and then has no snapshot."""
    of = plan()
    table, slot = (each.name for each in COLUMNS)
    function = [np.frombuffer(b"numbers", np.uint8)]
    requests = [
        (messages.AssignRows(name=table, start=0, origin="first"), [np.full(8, 2.0, np.float32)]),
        (messages.AssignRows(name=table, start=4, origin="first"), [np.full(12, 3.0, np.float32)]),
        (messages.Make(name=slot, first=5, origin="first"), function),
        (messages.Initialize(step=7, origin="first"), everything(of, 1.0)),
    ]
    before = keeper()
    server = started(of, find=before.find, record=before.record)
    for request in requests[:given]:
        assert ask(server, CHIEF, *request).message == messages.Done()
    again = started(of, run="2", find=(kept := keeper()).find, record=kept.record)
    seen = messages.Seen(origin="first", run="1")  # what the chief knows that gives them
    join = messages.Join(plan=fingerprint(of), versions=VERSIONS, starts=True, seen=seen)
    assert ask(again, CHIEF, join).message.initialized is (given == 4)
    for request in requests[given:]:
        assert ask(again, CHIEF, *request).message == messages.Done()
    assert rows(again, [5, 8, 9, 14]).tolist() == [[2, 2], [2, 2], [3, 3], [3, 3]]
    answer = ask(again, WORKER, *reading(of))
    assert (answer.message.step, answer.message.origin) == (7, "first")
    assert read_in(answer)[-1].reshape(-1, 2)[:, 0].tolist() == [*range(5, 15)]
    push(again, WORKER, 1, [6], 2.0)
    kept.look(again)
    kept.wait()
    third = started(of, run="3", find=(last := keeper()).find, record=last.record)
    ask(third, CHIEF, join)
    assert rows(third, [5, 6]).tolist() == [[2, 2], [2, 2]]  # no snapshot is due


def test_a_snapshot_takes_the_place_of_the_first_values(keeper, tmp_path):
    of, kept = plan(), Keeper(tmp_path / "ps-0", None, 1)
    server = started(of, find=kept.find, record=kept.record)
    initialize(server, of)
    push(server, WORKER, 1, [6], 2.0)
    kept.look(server)
    kept.wait()
    again = started(of, run="2", find=keeper().find)
    seen = messages.Seen(origin="first", run="1", version=2, sequence=1)
    ask(again, WORKER, messages.Join(plan=fingerprint(of), versions=VERSIONS, seen=seen))
    assert rows(again, [5, 6]).tolist() == [[1, 1], [3, 3]]
    assert keeper().find("first").changes == []
    assert keeper().find("another") is None
