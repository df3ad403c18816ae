"""Parts that other processes write: whole with all of them, absent without one."""

import errno
import os
import re

import numpy as np
import pytest
from parts_of_others import EXPECTED, OWN, TABLE, OneTable, TwoWriters

from muster._errors import CheckpointError
from muster.checkpoint import (
    Checkpointer,
    latest_checkpoint,
    list_checkpoints,
    read_checkpoint,
    repair,
    stray_checkpoints,
    write_part,
    writer_of,
)


def assert_whole(path):
    found = read_checkpoint(path).variables
    assert list(found) == list(EXPECTED)
    for name, value in EXPECTED.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize("sees", [True, False])
def test_parts_of_others_or_their_values_make_one_checkpoint(tmp_path, sees):
    with Checkpointer(tmp_path) as writer:
        path = writer.save(7, OWN, {}, parts=TwoWriters(sees), wait=True)
    assert_whole(path)
    files = {name for name in os.listdir(path) if name != "manifest.json"}
    assert sorted(map(writer_of, files)) == (["", "ps-0", "ps-1"] if sees else [""])


def test_a_step_is_saved_again_beside_its_old_data(tmp_path):
    with Checkpointer(tmp_path) as writer:
        writer.save(7, OWN, {}, parts=TwoWriters())
        path = writer.save(7, OWN, {}, parts=TwoWriters(), wait=True)
    assert_whole(path)
    assert len(os.listdir(path)) == 4


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("exc", [CheckpointError("ps 1 is lost"), OSError(errno.ENOSPC, "full")])
def test_a_part_that_fails_leaves_no_checkpoint_or_the_one_before(tmp_path, exists, exc):
    with Checkpointer(tmp_path) as writer:
        if exists:
            writer.save(7, OWN, {}, parts=TwoWriters(), wait=True)
        with pytest.raises(CheckpointError):
            writer.save(7, OWN, {}, parts=TwoWriters(fails=exc), wait=True)
        if exists:
            assert_whole(latest_checkpoint(tmp_path))
            assert len(os.listdir(tmp_path / "ckpt-7")) == 4
        else:
            assert not (tmp_path / "ckpt-7").exists()
        writer.save(8, OWN, {}, parts=TwoWriters(), wait=True)
        assert_whole(latest_checkpoint(tmp_path))


def test_what_a_killed_writer_left_is_swept_and_old_checkpoints_are_deleted(tmp_path):
    (tmp_path / "ckpt-3").mkdir()
    (tmp_path / "ckpt-3" / "manifest.json.tmp").touch()
    (tmp_path / "ckpt-3" / "variables-12345678-ps-0.safetensors").write_bytes(b"half")
    with Checkpointer(tmp_path, max_to_keep=2) as writer:
        for step in (4, 5, 6):
            writer.save(step, OWN, {}, parts=TwoWriters())
    assert [info.step for info in list_checkpoints(tmp_path)] == [5, 6]
    assert not (tmp_path / "ckpt-3").exists()


def test_a_lost_manifest_of_parts_is_rebuilt(tmp_path):
    with Checkpointer(tmp_path) as writer:
        path = writer.save(7, OWN, {"note": 1}, parts=TwoWriters(), wait=True)
    os.unlink(os.path.join(path, "manifest.json"))
    assert path in stray_checkpoints(tmp_path)
    assert "manifest.json rebuilt" in repair(tmp_path)[0]
    assert_whole(path)
    (lost,) = (name for name in os.listdir(path) if "ps-1" in name)
    os.unlink(os.path.join(path, lost))
    os.unlink(os.path.join(path, "manifest.json"))
    assert "not restored" in repair(tmp_path)[0]


def test_a_part_is_written_under_a_name_of_data_only_and_anew_where_a_killed_process_began(tmp_path):
    for name in ("../variables-12345678.safetensors", "x", "variables-12345678-/../a-1.safetensors"):
        with pytest.raises(ValueError, match="not the name"):
            write_part(tmp_path, name, {})
    (tmp_path / "variables-12345678-ps-0.safetensors").write_bytes(b"half")
    write_part(str(tmp_path), "variables-12345678-ps-0.safetensors", {"a": TABLE})
    with pytest.raises(FileNotFoundError):
        write_part(str(tmp_path / "none"), "variables-12345678-ps-0.safetensors", {"a": TABLE})


def test_rows_that_have_changed_complete_a_file_of_an_earlier_checkpoint_which_may_be_gone(tmp_path):
    parts = OneTable(TABLE.copy())
    with Checkpointer(tmp_path, max_to_keep=1) as writer:
        for step in range(4):
            parts.table[step] = 100 + step
            path = writer.save(step, OWN, {}, parts=parts, wait=True)
            found = read_checkpoint(path).variables
            np.testing.assert_array_equal(found["table"], parts.table)
            np.testing.assert_array_equal(found["seed"], OWN["seed"])
        assert [info.step for info in list_checkpoints(tmp_path)] == [3]
        assert sorted(map(writer_of, os.listdir(path))) == ["", "", "ps-0", "ps-0"]  # "" of the manifest, too
        path = writer.save(3, OWN, {}, parts=parts, wait=True)  # once more
    np.testing.assert_array_equal(read_checkpoint(path).variables["table"], parts.table)
    os.unlink(os.path.join(path, "manifest.json"))
    assert "manifest.json rebuilt" in repair(tmp_path)[0]
    np.testing.assert_array_equal(read_checkpoint(path).variables["table"], parts.table)


def test_only_a_checkpoint_with_changes_is_of_the_newer_format(tmp_path):
    parts, formats = OneTable(TABLE.copy()), []
    with Checkpointer(tmp_path) as writer:
        for step in range(2):
            path = writer.save(step, OWN, {}, parts=parts, wait=True)
            with open(os.path.join(path, "manifest.json")) as file:
                formats.append(re.search(r'"format":(\d)', file.read())[1])
    assert formats == ["1", "2"]
