"""Snapshots of tables that are trained meanwhile, in files, restored on other numbers of servers."""

import itertools
import resource
import signal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_models import RATE, SPEC, Sums, gradients

from muster.ps.tables import (
    DenseTable,
    HashTable,
    Keeping,
    SlotSpec,
    TableSpec,
    owners,
    read_pieces,
    restore_files,
    write_pieces,
)
from muster.ps.tables import _keyed_rows as keyed_rows
from muster.ps.tables import _row_store as row_store

ROWS = 40
KEEPING = Keeping(admit_after=2, max_age=12)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(row_store, "_PIECE_BYTES", 100)
    monkeypatch.setattr(row_store, "_WINDOW", 7)
    monkeypatch.setattr(keyed_rows, "_GONE_PIECE", 3)


class Dense:
    """The servers of a dense table."""

    spec = SPEC

    def __init__(self, servers):
        bounds = [ROWS * server // servers for server in range(servers + 1)]
        self.tables = [DenseTable(self.spec, *rows, Sums()) for rows in itertools.pairwise(bounds)]

    def initialize(self):
        for table in self.tables:
            table.initialize()

    def push(self, ids, seed):
        given = gradients(ids, seed)
        for table in self.tables:
            here = (ids >= table.start) & (ids < table.stop)
            table.apply(ids[here], given[here], [RATE])


class Narrow(Dense):
    """Several rows of this table share what is said of them."""

    spec = TableSpec(name="wide", shape=(), slots=(SlotSpec("sum", ()), SlotSpec("n", (), "float16")))

    def push(self, ids, seed):
        given = gradients(ids, seed)[:, 0]
        for table in self.tables:
            here = (ids >= table.start) & (ids < table.stop)
            table.apply(ids[here], given[here], [RATE])


class Hashed:
    """The servers of a hashed table."""

    def __init__(self, servers, keeping=KEEPING):
        self.tables = [
            HashTable(SPEC, keeping, Sums(), server=server, servers=servers) for server in range(servers)
        ]

    def initialize(self):
        pass

    def push(self, ids, seed):
        given = gradients(ids, seed)
        for number, table in enumerate(self.tables):
            here = owners(ids, len(self.tables)) == number
            table.apply(ids[here], given[here], [RATE])


KINDS = [Dense, Narrow, Hashed]


def contents(pieces):
    """What a snapshot has for each id of each part, which it may have only once."""
    found = {}
    for part, ids, arrays in pieces:
        for row, each in enumerate(ids.tolist()):
            assert (part, each) not in found
            found[part, each] = tuple(array[row].tobytes() for array in arrays)
    return found


def everything(table):
    """What a table has now."""
    snapshot = table.snapshot()
    found = contents(snapshot)
    snapshot.close(written=False)
    return found


def everywhere(servers):
    return {key: row for table in servers.tables for key, row in everything(table).items()}


def some_ids(rng):
    return rng.integers(0, ROWS, rng.integers(0, 10))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32), before=st.integers(0, 20))
def test_a_snapshot_is_of_one_instant(kind, seed, before):
    rng = np.random.default_rng(seed)
    servers = kind(1)
    servers.initialize()
    (table,) = servers.tables
    for turn in range(before):
        servers.push(some_ids(rng), turn)
    wanted = everything(table)
    snapshot = table.snapshot()
    pieces = []
    while (piece := snapshot.next()) is not None:
        pieces.append(piece)
        servers.push(some_ids(rng), len(pieces))
    assert contents(pieces) == wanted


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_changes_are_those_since_the_last_whole_snapshot(kind, seed):
    rng = np.random.default_rng(seed)
    servers = kind(1)
    servers.initialize()
    (table,) = servers.tables
    state = {}
    for turn in range(60):
        servers.push(some_ids(rng), turn)
        if turn % 7 == 6:
            snapshot = table.snapshot(whole=turn == 34)
            assert snapshot.head.whole == (turn in (6, 34))
            pieces = []
            while (piece := snapshot.next()) is not None:
                pieces.append(piece)
                if rng.random() < 0.5:
                    servers.push(some_ids(rng), turn + 100)
            snapshot.close(written=True)
            found = contents(pieces)
            if snapshot.head.whole:
                state = found
    last = table.snapshot(whole=False)
    assert not last.head.whole
    changes = contents(last)
    last.close(written=False)
    if kind is Dense:
        assert {key for key, row in everything(table).items() if state[key] != row} == set(changes)
    state.update(changes)
    assert {key: row for key, row in state.items() if row} == everything(table)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 3), (3, 2), (2, 1)])
def test_what_is_restored_goes_on_bit_for_bit(kind, before, after, tmp_path):
    rng = np.random.default_rng(before * 10 + after)
    old, new = kind(before), kind(after)
    old.initialize()
    paths = []
    for turn in range(40):
        old.push(some_ids(rng), turn)
        if turn in (20, 30, 39):
            for number, table in enumerate(old.tables):
                paths.append(tmp_path / f"{turn}-{number}")
                snapshot = table.snapshot(whole=turn == 20)
                write_pieces(paths[-1], snapshot.head, snapshot.next)
                snapshot.close(written=True)
    used = paths[:before] + paths[-before:]  # what changes have come to is in the last of them
    for table in new.tables:
        restore_files(table, used)
    assert everywhere(new) == everywhere(old)
    for turn in range(40):
        ids = some_ids(rng)
        old.push(ids, turn)
        new.push(ids, turn)
    assert everywhere(new) == everywhere(old)
    assert all(table.snapshot(whole=False).head.whole for table in new.tables)


def test_changes_are_few_bytes(tmp_path):
    table = DenseTable(SPEC, 0, 10_000, Sums())
    table.initialize()
    sizes = []
    for count in (0, 0, 100):
        table.apply(np.arange(count) * 97, gradients(range(count)), [RATE])
        snapshot = table.snapshot(whole=False)
        sizes.append(write_pieces(tmp_path / "rows", snapshot.head, snapshot.next))
        snapshot.close(written=True)
    assert sizes[0] > 10_000 * 28
    assert sizes[1] < 300
    assert 100 * 28 <= sizes[2] < 100 * 28 + 2000


def test_a_whole_snapshot_that_was_not_written_is_taken_again():
    table = DenseTable(SPEC, 0, ROWS, Sums())
    table.initialize()
    snapshot = table.snapshot()
    snapshot.next()
    with pytest.raises(RuntimeError, match="of table 'users' is being taken"):
        table.snapshot()
    snapshot.close(written=False)
    again = table.snapshot(whole=False)
    assert again.head.whole
    assert len(contents(again)) == ROWS
    again.close(written=True)
    table.apply(np.array([3]), gradients([3]), [RATE])
    for _ in range(2):  # changes are taken again without more ado
        changes = table.snapshot(whole=False)
        assert set(contents(changes)) == {(0, 3)}
        changes.close(written=False)


def test_too_many_rows_that_went_make_a_whole_snapshot(monkeypatch):
    monkeypatch.setattr(keyed_rows, "_GONE", 9)
    table = HashTable(SPEC, Keeping(max_age=1), Sums())
    table.snapshot().close(written=True)
    ids = np.arange(10)
    table.apply(ids, gradients(ids), [RATE])
    snapshot = table.snapshot(whole=False)
    assert not snapshot.head.whole
    snapshot.close(written=True)
    for _ in range(2):
        table.apply(ids[:0], gradients([]), [RATE])
    assert len(table) == 0
    assert table.snapshot(whole=False).head.whole


@pytest.fixture
def written(tmp_path):
    """A table, and the file of its snapshot."""
    table = DenseTable(SPEC, 0, ROWS, Sums())
    table.initialize()
    snapshot = table.snapshot()
    write_pieces(tmp_path / "rows", snapshot.head, snapshot.next)
    snapshot.close(written=True)
    return table, tmp_path / "rows"


@pytest.mark.parametrize("damage", [b"", b"abc", "cut", "changed"])
def test_damage_is_found(written, damage):
    table, path = written
    content = path.read_bytes()
    if damage == "cut":
        damage = content[:-10]
    elif damage == "changed":
        damage = content[:200] + bytes([content[200] ^ 1]) + content[201:]
    path.write_bytes(damage)
    with pytest.raises(ValueError, match="rows is damaged"):
        restore_files(table, [path])


def test_on_a_full_disk_the_file_before_stays(written, tmp_path):
    table, path = written
    before = path.read_bytes()
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    snapshot = table.snapshot()
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_pieces(path, snapshot.head, snapshot.next)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["rows"]


def test_changes_need_what_they_are_changes_of(written, tmp_path):
    table, path = written
    table.apply(np.array([3]), gradients([3]), [RATE])
    changes = table.snapshot(whole=False)
    write_pieces(tmp_path / "changes", changes.head, changes.next)
    changes.close(written=True)
    restore_files(DenseTable(SPEC, 0, ROWS), [tmp_path / "changes", path])
    with pytest.raises(ValueError, match="changes has only what changed in table 'users'"):
        restore_files(DenseTable(SPEC, 0, ROWS), [tmp_path / "changes"])


def test_rows_of_another_kind_are_not_restored(written):
    _, path = written
    spec = TableSpec(name="items", shape=(2,))
    with pytest.raises(
        ValueError, match=r"table 'users' has other rows than table 'items'.*float32\[2\] here"
    ):
        restore_files(DenseTable(spec, 0, ROWS), [path])
    with pytest.raises(ValueError, match="has other rows"):
        restore_files(HashTable(SPEC, Keeping()), [path])


def test_pieces_of_a_file_are_what_was_given_away(written):
    table, path = written
    head, pieces = read_pieces(path)
    snapshot = table.snapshot()
    assert head.parts == snapshot.head.parts
    assert contents(pieces) == contents(snapshot)
