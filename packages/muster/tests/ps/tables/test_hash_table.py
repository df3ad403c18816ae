"""Hashed tables beside a dictionary: which ids get rows, and which rows go."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_models import SPEC, KeptRows, gradients, train_hashed

from muster.ps.tables import Constant, HashTable, Keeping, SlotSpec, TableSpec, Uniform, owners
from muster.ps.tables import _hash_table as hash_table

FAR = 1 << 62  # ids are of 64 bits
pushes = st.lists(st.lists(st.integers(-6, 6).map(lambda each: each * FAR // 6), max_size=8), max_size=25)
keepings = st.builds(
    Keeping,
    admit_after=st.integers(1, 4),
    max_age=st.none() | st.integers(1, 20),
    max_rows=st.none() | st.integers(8, 20),
    evict=st.sampled_from(["recently", "frequently"]),
)


def push(table, ids, seed=0):
    train_hashed(table, ids, gradients(ids, seed))


def rows_of(table, ids):
    return table.look_up(np.array(ids, np.int64)).tolist()


@given(keepings, pushes)
def test_rows_are_those_of_a_dictionary(keeping, pushed):
    table, model = HashTable(SPEC, keeping), KeptRows(keeping)
    everything = [each * FAR // 6 for each in range(-6, 7)]
    for seed, ids in enumerate(pushed):
        push(table, ids, seed)
        model.apply(ids, gradients(ids, seed))
        np.testing.assert_array_equal(table.look_up(np.array(everything)), model.look_up(everything))
        assert len(table) == len(model.rows)
        assert table.candidates == len(model.counts) - len(model.rows)


@settings(max_examples=20)
@given(st.sampled_from(["recently", "frequently"]), st.randoms(use_true_random=False))
def test_rows_that_go_are_those_of_a_dictionary(evict, random):
    keeping = Keeping(max_rows=40, evict=evict, admit_after=2)
    table, model = HashTable(SPEC, keeping), KeptRows(keeping)
    for seed in range(30):
        ids = [random.randrange(100) for _ in range(random.randrange(20))]
        push(table, ids, seed)
        model.apply(ids, gradients(ids, seed))
    np.testing.assert_array_equal(table.look_up(np.arange(100)), model.look_up(range(100)))
    assert len(table) == len(model.rows)


def test_looking_up_makes_no_rows():
    table = HashTable(SPEC, Keeping())
    assert rows_of(table, [5, 7, 5]) == [[1, 1]] * 3
    assert len(table) == 0
    push(table, [5])
    assert len(table) == 1
    assert rows_of(table, [7, 5])[0] == [1, 1]


def test_an_id_is_zeros_until_the_occurrence_at_which_it_gets_its_row():
    table = HashTable(SPEC, Keeping(admit_after=3))
    seen = []
    for _ in range(4):
        seen.append(rows_of(table, [5])[0])
        train_hashed(table, [5], np.ones((1, 2), np.float32))
    assert seen == [[0, 0], [0, 0], [1, 1], [0.5, 0.5]]
    assert rows_of(table, [5]) == [[0, 0]]  # by training
    for _ in range(2):
        train_hashed(table, [6, 6, 6], np.ones((3, 2), np.float32))  # once in each push
    assert rows_of(table, [6]) == [[1, 1]]  # what it will begin with


def test_a_row_that_went_begins_again():
    table = HashTable(SPEC, Keeping(max_age=2))
    push(table, [5])
    changed = rows_of(table, [5])
    push(table, [6])
    push(table, [6])
    assert rows_of(table, [5]) == changed != [[1, 1]]
    push(table, [])  # grows older by this, too
    assert rows_of(table, [5]) == [[1, 1]]
    assert len(table) == 1


def test_rows_of_a_push_stay_though_they_are_rare():
    table = HashTable(SPEC, Keeping(max_rows=4, evict="frequently"))
    for _ in range(5):
        push(table, [1, 2, 3])
    push(table, [4])
    before = rows_of(table, [4])
    push(table, [4, 5])
    assert len(table) == 4
    assert rows_of(table, [1]) == [[1, 1]]
    assert before != rows_of(table, [4]) != [[1, 1]] != rows_of(table, [5])


def test_places_of_rows_that_went_are_used_again():
    table = HashTable(SPEC, Keeping(max_rows=1600))
    sizes = set()
    for turn in range(60):
        push(table, range(turn * 500, turn * 500 + 500))
        assert len(table) <= 1600
        sizes.add(table.nbytes)
    assert sorted(sizes)[-1] == table.nbytes
    assert len(sizes) < 8


def test_ages_are_right_when_the_clock_begins_again():
    table = HashTable(SPEC, Keeping(max_age=4))
    table.clock = (1 << 32) - 3
    push(table, [5])
    push(table, [6])
    for _ in range(3):
        push(table, [6])
    assert len(table) == 2
    push(table, [6])
    assert len(table) == 1


def test_those_that_wait_are_forgotten_where_they_are_too_many(monkeypatch):
    monkeypatch.setattr(hash_table, "most_candidates", lambda rows: 100)
    table = HashTable(SPEC, Keeping(admit_after=2))
    for each in range(0, 200, 20):
        push(table, range(each, each + 20))
        assert table.candidates <= 100
    push(table, [0, 199])  # of which only the first was forgotten
    assert len(table) == 1


def test_rows_begin_the_same_on_every_server():
    spec = TableSpec(name="t", shape=(4,), initial=Uniform(seed=3))
    ids = np.arange(1000) << 50
    one = HashTable(spec, Keeping()).look_up(ids)
    assert len(np.unique(one)) > 3900
    for server in range(3):
        here = ids[owners(ids, 3) == server]
        there = HashTable(spec, Keeping(), server=server, servers=3).look_up(here)
        np.testing.assert_array_equal(there, one[owners(ids, 3) == server])


@pytest.mark.parametrize("slots", [(), (SlotSpec("sum", (32,)),)], ids=len)
def test_memory_is_less_than_half_more_than_the_rows(slots):
    spec = TableSpec(name="t", shape=(32,), initial=Constant(0.0), slots=slots)

    table = HashTable(spec, Keeping(admit_after=2))
    shares = []
    for start in range(0, 200_000, 20_000):
        few = np.arange(start, start + 20_000)
        for ids in (few, few, few + (1 << 40)):  # the last of which wait
            table.prepare(ids)()
        shares.append(table.nbytes / (len(table) * spec.row_nbytes))
    assert table.candidates > 0.3 * len(table)
    assert max(shares[5:]) < 1.5


def test_an_id_of_another_server_is_named_with_the_table():
    ids = np.arange(100)
    table = HashTable(SPEC, Keeping(), server=1, servers=2)
    wrong = ids[owners(ids, 2) == 0][0]
    for use in (table.look_up, table.prepare):
        with pytest.raises(
            ValueError, match=rf"id {wrong} of table users is not in part 1 of 2, but in part 0"
        ):
            use(ids)
    assert len(table) == 0


def test_a_push_of_more_rows_than_there_may_be_changes_none():
    table = HashTable(SPEC, Keeping(max_rows=4))
    push(table, [1, 2])
    before = rows_of(table, range(6))
    with pytest.raises(ValueError, match="5 rows of table users, of which at most 4 .*max_rows"):
        push(table, [1, 2, 3, 4, 5])
    assert rows_of(table, range(6)) == before


def test_more_memory_than_there_is(monkeypatch):
    monkeypatch.setattr(hash_table, "memory_bytes", lambda: 20_000)
    table = HashTable(SPEC, Keeping())
    push(table, range(100))
    before = rows_of(table, range(2000))
    with pytest.raises(
        MemoryError, match=r"2000 rows of table users.* and this server has 2e-05 GB.* Give the job \d+ times"
    ):
        push(table, range(2000))
    assert rows_of(table, range(2000)) == before


def test_rows_are_read_in_pieces_and_assigned():
    table = HashTable(SPEC, Keeping(admit_after=2))
    for ids in (range(-20, 30), range(-20, 30), [1000]):
        push(table, ids)
    push(table, range(-5, 5), seed=1)
    pieces, start = [], 0
    while not pieces or start:
        start, ids, columns = table.read(start, 7)
        assert (np.diff(ids) > 0).all()
        pieces.append((ids, columns))
    assert [len(ids) for ids, _ in pieces] == [7] * 7 + [1]
    other = HashTable(SPEC, Keeping(admit_after=2))
    push(other, [1000])
    push(other, [1000])
    for number, (ids, columns) in enumerate(pieces):
        if not number:
            other.clear()
        other.assign(ids, columns)
    assert rows_of(other, range(-20, 31)) == rows_of(table, range(-20, 31))
    assert (len(other), other.candidates) == (50, 0)
    for each in (table, other):  # rows go on, and their slots
        push(each, range(-5, 5), seed=2)
    assert rows_of(other, range(-20, 30)) == rows_of(table, range(-20, 30))
    assert table.read(0, 10)[0]
    assert HashTable(SPEC, Keeping()).read(0, 10)[0] == 0


@pytest.mark.parametrize("field", ["admit_after", "max_age", "max_rows"])
def test_keeping_nothing(field):
    with pytest.raises(ValueError, match=f"{field} is 0"):
        Keeping(**{field: 0})
