"""Variables that stay in a checkpoint's files: by rows and in pieces, as when they are read."""

import os
import shutil

import numpy as np
import pytest
from parts_of_others import OWN, TABLE, OneTable, TwoWriters

import bundles
from muster.__main__ import main
from muster._errors import DamagedCheckpointError
from muster.checkpoint import (
    Checkpointer,
    MappedArray,
    _arrays,
    _data_files,
    _mapped_array,
    check_checkpoint,
    read_checkpoint,
    restore_latest,
    write_checkpoint,
)
from muster.checkpoint.tensorflow import _bundle, read_either

WIDE = np.random.default_rng(0).normal(size=(1000, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Let arrays of some bytes count as large, and pieces have some rows."""
    monkeypatch.setattr(_mapped_array, "LEAST_MAPPED_BYTES", 40)
    monkeypatch.setattr(_mapped_array, "_PIECE_BYTES", 100)
    monkeypatch.setattr(_mapped_array, "_ROWS_AT_ONCE", 3)
    monkeypatch.setattr(_mapped_array, "_KEPT_BYTES", 0)
    _data_files._check_once.cache_clear()


@pytest.fixture
def never_whole(monkeypatch):
    """Fail where a variable in files is read as a whole."""

    def refuse(self, *args, **kwargs):
        raise AssertionError(f"an array of shape {self.shape} is read as a whole")

    monkeypatch.setattr(MappedArray, "__array__", refuse)


def check(found, expected):
    assert isinstance(found, MappedArray)
    assert (found.shape, found.dtype, found.nbytes) == (expected.shape, expected.dtype, expected.nbytes)
    everything = np.arange(len(expected))
    for numbers in (everything, everything[1::2], everything[:0], everything[-1:]):
        np.testing.assert_array_equal(found.rows(numbers), expected[numbers])
    assert len([*found.pieces()]) >= expected.nbytes // 100
    np.testing.assert_array_equal(np.concatenate([*found.pieces()]), expected)
    np.testing.assert_array_equal(found.astype(np.float64).rows(everything), expected.astype(np.float64))
    np.testing.assert_array_equal(np.asarray(found), expected)


def test_rows_are_those_of_all_writers(tmp_path):
    with Checkpointer(tmp_path) as writer:
        path = writer.save(7, OWN, {}, parts=TwoWriters(), wait=True)
    checkpoint = read_checkpoint(path, mapped=True)
    check(checkpoint.variables["table"], TABLE)
    assert checkpoint.variables["count"] == 4  # small ones are read
    checkpoint.close()


def test_rows_that_have_changed_come_over_those_of_an_earlier_checkpoint(tmp_path):
    parts = OneTable(TABLE.copy())
    with Checkpointer(tmp_path, max_to_keep=1) as writer:
        for step in range(4):
            parts.table[(step * 2) % 5] = 100 + step
            path = writer.save(step, OWN, {}, parts=parts, wait=True)
            checkpoint = read_checkpoint(path, mapped=True)
            check(checkpoint.variables["table"], parts.table)
            checkpoint.close()


def test_what_is_deleted_can_be_read_until_it_is_closed(tmp_path):
    checkpoint = read_checkpoint(write_checkpoint(tmp_path, 1, {"w": WIDE}, {}), mapped=True)
    shutil.rmtree(tmp_path / "ckpt-1")
    check(checkpoint.variables["w"], WIDE)
    checkpoint.close()
    with pytest.raises(ValueError, match="closed"):
        checkpoint.variables["w"].rows(np.arange(1))


def test_a_copy_is_written_in_pieces(tmp_path, never_whole):
    arrays = {"w": WIDE, "slot": WIDE + 1, "step": np.int64(3)}
    checkpoint = read_checkpoint(write_checkpoint(tmp_path / "one", 1, arrays, {}), mapped=True)
    copied = write_checkpoint(tmp_path / "other", 1, checkpoint.variables, {})
    checkpoint.close()
    for name, value in read_checkpoint(copied).variables.items():
        np.testing.assert_array_equal(value, arrays[name])


def test_a_file_is_checked_once_as_long_as_it_is_the_same(tmp_path, monkeypatch):
    checked = []
    original = _arrays.zlib.crc32
    monkeypatch.setattr(_arrays.zlib, "crc32", lambda data, crc=0: checked.append(1) or original(data, crc))
    path = write_checkpoint(tmp_path, 1, {"w": WIDE}, {})
    counts = []
    for _ in range(2):
        checked.clear()
        read_checkpoint(path, mapped=True).close()
        counts.append(len(checked))
    assert counts[0] > counts[1]
    (name,) = (each for each in os.listdir(path) if each.startswith("variables"))
    with open(os.path.join(path, name), "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"?")
    os.utime(os.path.join(path, name), (1, 1))
    with pytest.raises(DamagedCheckpointError, match="its bytes have changed"):
        read_checkpoint(path, mapped=True)
    with pytest.raises(DamagedCheckpointError, match="its bytes have changed"):
        check_checkpoint(path)
    write_checkpoint(tmp_path, 0, {"w": WIDE}, {})
    checkpoint = restore_latest(tmp_path, mapped=True)
    assert checkpoint.step == 0
    checkpoint.close()


def test_tensors_of_tensorflow_stay_in_its_files(tmp_path):
    bundles.write(tmp_path / "model", {"w": WIDE, "b": np.ones(2, np.float32)}, shards=2)
    checkpoint = read_either(tmp_path / "model", mapped=True)
    check(checkpoint.variables["w"], WIDE)
    np.testing.assert_array_equal(checkpoint.variables["b"], np.ones(2))
    checkpoint.close()


@pytest.mark.parametrize("by_rows", [True, False])
def test_divided_tensors_of_tensorflow_stay_in_its_files_if_their_parts_are_rows(tmp_path, by_rows):
    every = _bundle.Extent(0, None)
    halves = (_bundle.Extent(0, 400), _bundle.Extent(400, 600))
    sides = (_bundle.Extent(0, 1), _bundle.Extent(1, 2))
    slices = [[each, every] for each in halves] if by_rows else [[every, each] for each in sides]
    arrays = [WIDE[:400], WIDE[400:]] if by_rows else [WIDE[:, :1], WIDE[:, 1:]]
    data, entries = b"", {b"": bundles.header(), b"w": bundles.divided(WIDE, slices)}
    for extents, array in zip(slices, arrays, strict=True):
        array = np.ascontiguousarray(array)
        entries[_bundle.slice_key(b"w", extents)] = bundles.entry(array, 0, len(data))
        data += array.tobytes()
    (tmp_path / "model.index").write_bytes(bundles.table([bundles.block(dict(sorted(entries.items())))]))
    (tmp_path / "model.data-00000-of-00001").write_bytes(data)
    checkpoint = read_either(tmp_path / "model", mapped=True)
    found = checkpoint.variables["w"]
    assert isinstance(found, MappedArray) == by_rows
    np.testing.assert_array_equal(np.asarray(found), WIDE)
    checkpoint.close()


def test_commands_read_and_write_in_pieces(tmp_path, capsys, never_whole, monkeypatch):
    bundles.write(tmp_path / "model", {"w": WIDE, "global_step": np.int64(3)})
    assert main(["convert", str(tmp_path / "model"), str(tmp_path / "new")]) == 0
    assert main(["inspect", str(tmp_path / "model")]) == 0
    read = []
    monkeypatch.setattr(_data_files, "read_arrays", _noted(_data_files.read_arrays, read))
    assert main(["inspect", "--variables", str(tmp_path / "new")]) == 0
    assert read == [{}]
    assert "(1000, 3)" in capsys.readouterr().out
    np.testing.assert_array_equal(read_checkpoint(tmp_path / "new" / "ckpt-3").variables["w"], WIDE)


def _noted(function, results):
    def call(*args, **kwargs):
        results.append(function(*args, **kwargs))
        return results[-1]

    return call
