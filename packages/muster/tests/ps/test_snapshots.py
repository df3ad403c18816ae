"""Snapshots of a server's values: whole or absent, and no larger than what has changed."""

import resource
import signal

import numpy as np
import pytest

from muster.ps._row_snapshots import RowSnapshots
from muster.ps._snapshots import Saved, Snapshots
from muster.ps.tables import Column, RowStore

BLOCK = 1 << 18


def saved(version=1, origin="a", plan=b"plan"):
    return Saved(
        origin=origin,
        plan=plan,
        version=version,
        step=7,
        at=1.5,
        applied={"chief": (3, ()), "": (1, (version,))},
    )


def arrays(value=0.0):
    return [np.full(BLOCK, value, np.float32), np.full(3, value, np.int64), np.zeros(0, np.float16)]


@pytest.fixture
def snapshots(tmp_path):
    return Snapshots(tmp_path / "ps-0")


def assert_read(snapshots, says, values):
    found, read, pieces = snapshots.read(says.origin)
    assert not list(pieces)
    assert found == says
    for array, wanted in zip(read, values, strict=True):
        assert array.dtype == wanted.dtype
        np.testing.assert_array_equal(array, wanted)


def test_what_is_written_is_read_again(snapshots):
    assert snapshots.read("a") is None
    assert snapshots.write(saved(), arrays(2.0)) == 4 * BLOCK + 24
    assert_read(snapshots, saved(), arrays(2.0))
    assert snapshots.read("b") is None


def test_only_what_has_changed_is_written(snapshots):
    values = arrays()
    snapshots.write(saved(), values)
    values[0][5] = np.nan
    assert snapshots.write(saved(2), values) == BLOCK
    assert_read(snapshots, saved(2), values)
    assert snapshots.write(saved(3), values) == BLOCK  # against the whole one, as before
    values[1][:] = 4
    assert snapshots.write(saved(4), values) == BLOCK + 24
    assert_read(snapshots, saved(4), values)
    values[0][:] = 1.0
    assert snapshots.write(saved(5), values) == 4 * BLOCK + 24
    assert_read(snapshots, saved(5), values)
    assert snapshots.write(saved(6), values) == 0
    assert_read(snapshots, saved(6), values)


def test_changes_of_values_that_were_replaced_are_not_read(snapshots, tmp_path):
    values = arrays()
    snapshots.write(saved(), values)
    values[0][5] = 1.0
    snapshots.write(saved(2), values)
    changes = (tmp_path / "ps-0" / "changes").read_bytes()
    snapshots.write(saved(3, origin="b"), arrays(3.0))
    (tmp_path / "ps-0" / "changes").write_bytes(changes)  # it was killed before it removed them
    assert_read(snapshots, saved(3, origin="b"), arrays(3.0))


@pytest.mark.parametrize("other", [{"origin": "b"}, {"plan": b"other"}])
def test_other_values_are_written_whole(snapshots, other):
    snapshots.write(saved(), arrays())
    assert snapshots.write(saved(**other), arrays()) == 4 * BLOCK + 24
    assert_read(snapshots, saved(**other), arrays())


@pytest.mark.parametrize("name", ["values", "changes"])
@pytest.mark.parametrize("damage", [b"", b"\0" * 7, b"\0" * 99, b"\xff" * 99, "shorter", "header", "values"])
def test_what_is_no_snapshot_is_said(snapshots, tmp_path, name, damage):
    values = arrays()
    snapshots.write(saved(), values)
    values[0][5] = 1.0
    snapshots.write(saved(2), values)
    path = tmp_path / "ps-0" / name
    found = bytearray(path.read_bytes())
    match damage:
        case "shorter":
            found = found[:-1]
        case "header":
            found[found.index(b"applied") + 9] ^= 1
        case "values":
            found[-9] ^= 1
        case _:
            found = damage
    path.write_bytes(found)
    with pytest.raises(ValueError, match=r"snapshot|bytes of values|empty"):
        snapshots.read("a")
    snapshots.write(saved(3), arrays(3.0))
    assert_read(snapshots, saved(3), arrays(3.0))


def test_on_a_full_disk_the_one_before_stays(snapshots, tmp_path):
    snapshots.write(saved(), arrays(1.0))
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (BLOCK, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            snapshots.write(saved(2), arrays(2.0))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert_read(snapshots, saved(), arrays(1.0))
    assert [path.name for path in (tmp_path / "ps-0").iterdir()] == ["values"]


def test_nothing_is_left_of_what_is_removed(snapshots, tmp_path):
    snapshots.remove()
    values = arrays()
    snapshots.write(saved(), values)
    values[0][5] = 1.0
    snapshots.write(saved(2), values)
    snapshots.remove()
    assert not (tmp_path / "ps-0").exists()


ROWS = 10_000


@pytest.fixture
def store():
    made = RowStore([Column((8,), np.dtype(np.float32)), Column((), np.dtype(np.int16))], ROWS)
    made.write(slice(0, ROWS), [np.ones((ROWS, 8)), np.arange(ROWS) % 7])
    return made


class Taking:
    """Writes snapshots of some arrays and of rows."""

    def __init__(self, snapshots, store):
        self.snapshots, self.store, self.values = snapshots, store, arrays()
        self.of_rows = RowSnapshots()

    def write(self, version=1, plan=b"plan"):
        rows = self.of_rows.begin(plan, [self.store.for_snapshots])
        is_written = False
        try:
            size = self.snapshots.write(saved(version, plan=plan), self.values, rows)
            is_written = True
        finally:
            rows.close(is_written)
        return size

    def check(self, version):
        found, read, pieces = self.snapshots.read("a")
        assert found.version == version
        np.testing.assert_array_equal(read[0], self.values[0])
        again = RowStore(self.store.columns, ROWS)
        for _, ids, columns in pieces:
            again.write(ids, columns)
        for column, wanted in zip(again.read(np.arange(ROWS)), self.store.read(np.arange(ROWS)), strict=True):
            np.testing.assert_array_equal(column, wanted)


@pytest.fixture
def taking(snapshots, store):
    return Taking(snapshots, store)


def change(store, places):
    store.write(places, [np.full((len(places), 8), 5.0), np.full(len(places), 3)])


def test_only_rows_that_have_changed_are_written(taking, store):
    whole = 4 * BLOCK + 24 + ROWS * (8 + 4 * 8 + 2)
    assert whole < taking.write() < whole + 1000
    taking.check(1)
    assert taking.write() == 0
    for turn, count in enumerate((10, 100, 1000), 2):
        change(store, np.arange(count) * 9)
        assert count * 42 <= taking.write(turn) < count * 42 + 100
        taking.check(turn)
    taking.values[0][:] = 2.0  # all arrays, though the rows are few
    assert 4 * BLOCK + 1000 * 42 < taking.write(5) < 4 * BLOCK + 1000 * 42 + 100
    taking.check(5)
    change(store, np.arange(6000))
    assert taking.write(6) > whole
    taking.check(6)


def test_rows_are_written_whole_with_another_plan_or_without_a_file(taking, store, tmp_path):
    taking.write()
    change(store, np.arange(3))
    assert taking.write(2, b"other") > ROWS * 42
    taking.check(2)
    (tmp_path / "ps-0" / "values").unlink()
    with pytest.raises(FileNotFoundError, match="with all rows is there no more"):
        taking.write(3, b"other")
    assert taking.write(3, b"other") > ROWS * 42
    taking.check(3)


def test_damaged_rows_are_said(taking, store, tmp_path):
    taking.write()
    path = tmp_path / "ps-0" / "values"
    found = bytearray(path.read_bytes())
    found[-100] ^= 1
    path.write_bytes(found)
    with pytest.raises(ValueError, match="is damaged"):
        taking.snapshots.read("a")
