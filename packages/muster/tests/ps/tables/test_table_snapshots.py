"""Rows that are given away while they change, on another thread too, and taken back."""

import threading

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_models import SPEC, gradients, summed, train, train_hashed, update_rows

from muster.ps._row_snapshots import RowSnapshots
from muster.ps.tables import Column, Columns, HashTable, Keeping, PaddedRows, RowStore, SlotSpec
from muster.ps.tables import _keyed_rows as keyed_rows
from muster.ps.tables import _row_store as row_store

ROWS = 40
KEEPING = Keeping(admit_after=2, max_age=12)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(row_store, "_PIECE_BYTES", 100)
    monkeypatch.setattr(row_store, "_WINDOW", 7)
    monkeypatch.setattr(row_store, "_MARKED", 9)
    monkeypatch.setattr(keyed_rows, "_GONE_PIECE", 3)


class Dense:
    """A table that is held in a part for each column."""

    def __init__(self):
        self.hold([RowStore([column], ROWS) for column in SPEC.columns])
        for store in self.stores:
            store.write(slice(0, ROWS), [np.ones((ROWS, *store.columns[0].shape), np.float32)])

    def hold(self, stores):
        self.stores, self.parts = stores, [store.for_snapshots for store in stores]

    def push(self, ids, seed):
        train(Columns(self.stores), *summed(ids, gradients(ids, seed)))


class Narrow(Dense):
    """Several rows of this table share what is said of them."""

    def __init__(self):
        self.hold([RowStore([Column((), np.dtype(name))], ROWS) for name in ("float32", "float16")])
        for store in self.stores:
            store.write(slice(0, ROWS), [np.ones(ROWS)])

    def push(self, ids, seed):
        ids, sums = summed(ids, gradients(ids, seed))
        padded = PaddedRows(Columns(self.stores), [Column((), np.dtype(np.float32))])
        update_rows(padded, ids, sums[:, 0], lambda rows, pushed, others: [rows[0] + pushed[0], rows[1] + 1])


class ForCheckpoints(Dense):
    """Rows are taken for checkpoints, and those of some moment for a snapshot meanwhile."""

    def hold(self, stores):
        super().hold(stores)
        self.parts = [store.for_checkpoints for store in stores]

    def push(self, ids, seed):
        super().push(ids, seed)
        if seed % 5 == 0:
            RowSnapshots().begin("another", [store.for_snapshots for store in self.stores])


class Hashed:
    """A hashed table."""

    def __init__(self, keeping=KEEPING):
        self.table = HashTable(SPEC, keeping)
        self.parts = [rows.for_snapshots for rows in self.table.parts]

    def push(self, ids, seed):
        train_hashed(self.table, ids, gradients(ids, seed))


class HashedForCheckpoints(Hashed):
    """Rows of a hashed table are taken for checkpoints, and those of some moment for a snapshot meanwhile."""

    def __init__(self, keeping=KEEPING):
        super().__init__(keeping)
        self.parts = [rows.for_checkpoints for rows in self.table.parts]

    def push(self, ids, seed):
        super().push(ids, seed)
        if seed % 5 == 0:
            RowSnapshots().begin("another", [rows.for_snapshots for rows in self.table.parts])


KINDS = [Dense, Narrow, ForCheckpoints, Hashed, HashedForCheckpoints]


def contents(pieces):
    """What a snapshot has for each id of each part, which it may have only once."""
    found = {}
    for part, ids, arrays in pieces:
        for row, each in enumerate(ids.tolist()):
            assert (part, each) not in found
            found[part, each] = tuple(array[row].tobytes() for array in arrays)
    return found


def everything(servers):
    """What a table has now, by another sequence of snapshots, which changes nothing about the first."""
    found = {}
    for number, part in enumerate(servers.parts):
        places = part.store.used()
        columns = part.store.read(places)
        ids, columns = (
            (columns[0], columns[1:]) if isinstance(part, keyed_rows.KeyedTaker) else (places, columns)
        )
        for row, each in enumerate(ids.tolist()):
            found[number, each] = tuple(column[row].tobytes() for column in columns)
    return found


def some_ids(rng):
    return rng.integers(0, ROWS, rng.integers(0, 10))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10)
@given(seed=st.integers(0, 2**32), before=st.integers(0, 20))
def test_a_snapshot_is_of_one_instant(kind, seed, before):
    rng = np.random.default_rng(seed)
    servers = kind()
    for turn in range(before):
        servers.push(some_ids(rng), turn)
    wanted = everything(servers)
    pieces = []
    for piece in RowSnapshots().begin("it", servers.parts):
        pieces.append(piece)
        servers.push(some_ids(rng), len(pieces))
    assert contents(pieces) == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_is_of_one_instant_on_another_thread(kind):
    servers, rng, found = kind(), np.random.default_rng(0), []
    snapshots = RowSnapshots()
    for turn in range(20):
        servers.push(some_ids(rng), turn)
        wanted, snapshot = everything(servers), snapshots.begin(turn, servers.parts)
        thread = threading.Thread(target=lambda snapshot=snapshot: found.append(contents(snapshot)))
        thread.start()
        for other in range(10):
            servers.push(some_ids(rng), other)
        thread.join()
        snapshot.close(written=True)
        assert found.pop() == wanted


@pytest.mark.samples("HashedForCheckpoints", "Dense")
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_changes_are_those_since_the_last_whole_snapshot(kind, seed):
    rng = np.random.default_rng(seed)
    servers, snapshots, state = kind(), RowSnapshots(), {}
    for turn in range(60):
        servers.push(some_ids(rng)[:3], turn)
        if turn % 4 == 3:
            snapshot = snapshots.begin("before" if turn < 30 else "after", servers.parts)
            assert snapshot.whole or turn not in (3, 31)
            pieces = []
            for piece in snapshot:
                pieces.append(piece)
                if rng.random() < 0.3:
                    servers.push(some_ids(rng)[:2], turn + 100)
            snapshot.close(written=True)
            found = contents(pieces)
            state = found if snapshot.whole else state | found
    snapshot = snapshots.begin("after", servers.parts)
    found = contents(snapshot)
    state = found if snapshot.whole else state | found
    assert {key: row for key, row in state.items() if row} == everything(servers)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_restored_goes_on_bit_for_bit(kind):
    rng = np.random.default_rng(1)
    old, snapshots = kind(), RowSnapshots()
    pieces, wholes = [], []
    for turn in range(40):
        old.push(some_ids(rng)[: 1 if turn > 20 else 9], turn)
        if turn in (20, 21, 22):
            snapshot = snapshots.begin("it", old.parts)
            pieces += snapshot
            wholes.append(snapshot.whole)
            snapshot.close(written=True)
            wanted = everything(old)
            if turn == 22:
                break
    assert wholes == [True, False, False]
    new = kind()
    for part, ids, arrays in pieces:
        new.parts[part].restore(ids, arrays)
    assert everything(new) == wanted
    if issubclass(kind, Hashed):
        new.table.clock = old.table.clock
    for turn in range(30):
        ids = some_ids(rng)
        old.push(ids, turn)
        new.push(ids, turn)
    assert everything(new) == everything(old)


@pytest.mark.parametrize("whole", [True, False])
def test_after_a_snapshot_that_was_not_written_comes_a_whole_one(whole):
    servers, snapshots = Dense(), RowSnapshots()
    if not whole:
        first = snapshots.begin("it", servers.parts)
        assert len(contents(first)) == 3 * ROWS
        first.close(written=True)
    snapshot = snapshots.begin("it", servers.parts)
    assert snapshot.whole == whole
    next(iter(snapshot), None)
    snapshot.close(written=False)
    again = snapshots.begin("it", servers.parts)
    assert again.whole
    assert len(contents(again)) == 3 * ROWS
    again.close(written=True)
    servers.push([3], 0)
    for _ in range(2):
        changes = snapshots.begin("it", servers.parts)
        found = set(contents(changes))  # several rows of few bytes go together
        assert {(0, 3), (1, 3), (2, 3)} <= found <= {(part, row) for part in range(3) for row in range(4)}
        changes.close(written=True)


def test_a_slot_that_comes_meanwhile_is_in_the_next_snapshot():
    servers, snapshots = Hashed(), RowSnapshots()
    for turn in range(2):
        servers.push(np.arange(10), turn)
    spec, wanted = servers.table.spec, everything(servers)
    snapshot = snapshots.begin("it", servers.parts)
    slot = SlotSpec("later", (3,), initial=2.0)
    servers.table.add_slots(msgspec.structs.replace(spec, slots=(*spec.slots, slot)))
    kept = servers.table.first_columns(len(spec.columns))
    ids, sums = summed(np.arange(5), gradients(np.arange(5), 0))
    places, _ = servers.table.prepare(ids)()
    train(kept, places, sums)
    assert contents(snapshot) == wanted
    snapshot.close(written=True)
    again = snapshots.begin("another", servers.parts)
    assert {len(piece.arrays) for piece in again if piece.part == 0} == {len(again.layouts[0])} == {5}
    assert contents(snapshots.begin("a third", servers.parts)) == everything(servers)
    _, _, columns = servers.table.read(0, 100)
    assert (columns[-1] == 2.0).all()
    assert columns[-1].shape == (10, 3)


def test_to_begin_costs_nothing_for_rows_that_nobody_writes():
    servers = Dense()
    before = [store._flags.copy() for store in servers.stores]
    snapshot = RowSnapshots().begin("it", servers.parts)
    now = [store._flags for store in servers.stores]
    assert all(map(np.array_equal, now, before))
    servers.push([ROWS // 2], 0)  # what is beside it is marked, nine blocks with it
    assert all(0 < np.count_nonzero(a != b) <= 9 for a, b in zip(now, before, strict=True))
    assert snapshot.counts == (ROWS,) * 3


def test_where_most_rows_have_changed_all_are_given_away():
    servers, snapshots = Dense(), RowSnapshots()
    wholes = []
    for count in (0, 19, 30, 1):
        servers.push(np.arange(count), 0)
        snapshot = snapshots.begin("it", servers.parts)
        wholes.append(snapshot.whole)
        contents(snapshot)
        snapshot.close(written=True)
    assert wholes == [True, False, True, False]


def test_too_many_rows_that_went_make_a_whole_snapshot(monkeypatch):
    monkeypatch.setattr(keyed_rows, "_GONE", 9)
    servers, snapshots = Hashed(Keeping(max_age=1)), RowSnapshots()
    servers.push(np.arange(100, 160), 0)
    first = snapshots.begin("it", servers.parts)
    contents(first)
    first.close(written=True)
    servers.push(np.arange(10), 0)
    for _ in range(2):
        servers.push([], 0)
    assert len(servers.table) == 0
    assert snapshots.begin("it", servers.parts).whole


@pytest.mark.parametrize(("shapes", "most"), [([(32,)], 1.01), ([(1,), (1,), (1,)], 1.1), ([()], 1.07)])
def test_memory_is_that_of_the_rows(shapes, most):
    columns = [Column(shape, np.dtype(np.float32)) for shape in shapes]
    store = RowStore(columns, 10_000)
    assert store.nbytes <= most * 10_000 * store.row_nbytes
