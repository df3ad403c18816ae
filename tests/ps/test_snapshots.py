"""Snapshots of a server's values: whole or absent, and no larger than what has changed."""

import resource
import signal

import numpy as np
import pytest
from ps_rows import CHIEF, WORKER

from muster.ps._snapshots import Saved, Snapshots

BLOCK = 1 << 18


def saved(version=1, origin="a", plan=b"plan"):
    return Saved(
        origin=origin, plan=plan, version=version, step=7, at=1.5, pushes=((CHIEF, 3), (WORKER, version))
    )


def arrays(value=0.0):
    return [np.full(BLOCK, value, np.float32), np.full(3, value, np.int64), np.zeros(0, np.float16)]


@pytest.fixture
def snapshots(tmp_path):
    return Snapshots(tmp_path / "ps-0", Saved)


def assert_read(snapshots, says, values):
    found, read = snapshots.read(says.origin)
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
            found[found.index(b"pushes") + 20] ^= 1
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
