"""Damage is found, named, and stepped over; it never passes for a fresh start."""

import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from muster._errors import CheckpointError, CheckpointNotFoundError, DamagedCheckpointError
from muster.checkpoint import (
    Checkpointer,
    latest_checkpoint,
    list_checkpoints,
    list_variables,
    read_checkpoint,
    read_metadata,
    restore_latest,
    write_checkpoint,
)
from muster.checkpoint._manifest import read_manifest


def write(directory: Path, step: int) -> Path:
    return Path(write_checkpoint(directory, step, {"w": np.full(4, step, np.float32)}, {"step": step}))


def data_file(path: Path) -> Path:
    (file,) = path.glob("*.safetensors")
    return file


def flipped(file: Path) -> Iterator[int]:
    """Flips each bit of each byte in turn, and puts it back."""
    whole = file.read_bytes()
    for position in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[position // 8] ^= 1 << position % 8
        file.write_bytes(damaged)
        yield position // 8
    file.write_bytes(whole)


def test_every_flipped_bit_in_the_data_is_found(tmp_path: Path) -> None:
    path = write(tmp_path, 1)
    for _ in flipped(data_file(path)):
        with pytest.raises(DamagedCheckpointError, match=r"variables-\w+\.safetensors has checksum"):
            read_checkpoint(path)
    assert read_checkpoint(path).step == 1


def test_every_flipped_bit_in_the_manifest_is_found(tmp_path: Path) -> None:
    path = write(tmp_path, 1)
    for _ in flipped(path / "manifest.json"):
        for read in (read_checkpoint, read_metadata, list_variables):
            with pytest.raises(DamagedCheckpointError, match=r"manifest\.json does not match its checksum"):
                read(path)
        assert [info.step for info in list_checkpoints(tmp_path)] == [1]
    assert read_checkpoint(path).step == 1


def test_every_truncation_is_found(tmp_path: Path) -> None:
    path = write(tmp_path, 1)
    for file in (data_file(path), path / "manifest.json"):
        whole = file.read_bytes()
        for length in range(len(whole)):
            file.write_bytes(whole[:length])
            with pytest.raises(DamagedCheckpointError, match=file.name):
                read_checkpoint(path)
        file.write_bytes(whole + b" ")
        with pytest.raises(DamagedCheckpointError, match=file.name):
            read_checkpoint(path)
        file.write_bytes(whole)


def test_missing_data_file(tmp_path: Path) -> None:
    path = write(tmp_path, 1)
    data_file(path).unlink()
    with pytest.raises(DamagedCheckpointError, match=r"safetensors is missing"):
        read_checkpoint(path)


def test_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "ckpt-1").mkdir()
    (tmp_path / "file").touch()
    for name in ("ckpt-1", "ckpt-2", "file"):
        with pytest.raises(CheckpointNotFoundError, match="There is no checkpoint at"):
            read_checkpoint(tmp_path / name)


def test_unknown_format_is_not_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 1)
    with monkeypatch.context() as patch:
        patch.setattr("muster.checkpoint._manifest.FORMAT", 4)
        path = write(tmp_path, 2)
    # Falling back would throw away what a newer version wrote.
    for read, where in ((read_checkpoint, path), (restore_latest, tmp_path)):
        with pytest.raises(
            CheckpointError, match="has format 4, but this version of muster reads formats"
        ) as info:
            read(where)
        assert not isinstance(info.value, DamagedCheckpointError)
    assert [info.step for info in list_checkpoints(tmp_path)] == [1, 2]


def test_a_damaged_one_is_skipped_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    paths = {step: write(tmp_path, step) for step in (1, 2, 3, 4)}
    data_file(paths[4]).write_bytes(b"")
    (paths[3] / "manifest.json").write_bytes(b"{}")
    with caplog.at_level(logging.WARNING):
        checkpoint = restore_latest(tmp_path)
    assert checkpoint is not None
    assert checkpoint.step == 2
    np.testing.assert_array_equal(checkpoint.variables["w"], np.full(4, 2, np.float32))
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
    for step, message in zip((4, 3), caplog.messages, strict=True):
        assert f"Checkpoint {paths[step]} is damaged" in message
        assert f"Using {paths[2]} instead" in message
    assert latest_checkpoint(tmp_path) == str(paths[4])  # it only looks


def test_those_of_one_step_are_set_aside_as_often_as_they_are_damaged(tmp_path: Path) -> None:
    write(tmp_path, 1)
    for _ in range(3):
        data_file(write(tmp_path, 2)).write_bytes(b"")
        checkpoint = restore_latest(tmp_path, set_aside=True)
        assert checkpoint is not None
        assert checkpoint.step == 1
    assert sorted(os.listdir(tmp_path)) == ["ckpt-1", *(f"ckpt-2.damaged{n}" for n in ("", "-2", "-3"))]


def test_all_damaged_is_no_fresh_start(tmp_path: Path) -> None:
    for step in (1, 2):
        data_file(write(tmp_path, step)).unlink()
    with pytest.raises(DamagedCheckpointError, match=r"Every checkpoint in .*ckpt-2.*ckpt-1"):
        restore_latest(tmp_path)


def test_training_on_after_damage_keeps_the_good_ones(tmp_path: Path) -> None:
    """The damaged one has the highest step: it must not push out what was just saved."""
    write(tmp_path, 30)
    data_file(write(tmp_path, 40)).unlink()
    with Checkpointer(tmp_path, max_to_keep=1) as checkpointer:
        for step in (30, 35, 39):
            checkpointer.save(step, {}, {}, wait=True)
            checkpoint = restore_latest(tmp_path)
            assert checkpoint is not None
            assert checkpoint.step == step
        checkpointer.save(40, {}, {})
        checkpointer.save(41, {}, {})
    assert os.listdir(tmp_path) == ["ckpt-41"]


def test_periods_go_on_from_a_readable_manifest(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1, {}, {}, now=100.0)
    path = write_checkpoint(tmp_path, 2, {}, {}, now=200.0)
    (Path(path) / "manifest.json").write_bytes(b"?")
    assert read_manifest(write_checkpoint(tmp_path, 3, {}, {}, now=300.0)).started == 100.0


def test_deleted_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the manifest and the data, the writer saved a newer one and deleted this one."""
    from muster.checkpoint import _read

    old = write(tmp_path, 1)
    original = _read._read

    def late(path: str, manifest, **how):  # type: ignore[no-untyped-def]
        if path == str(old):
            write(tmp_path, 2)
            shutil.rmtree(old)
        return original(path, manifest, **how)

    monkeypatch.setattr(_read, "_read", late)
    with pytest.raises(CheckpointNotFoundError):
        read_checkpoint(old)
    shutil.rmtree(tmp_path / "ckpt-2")
    write(tmp_path, 1)
    checkpoint = restore_latest(tmp_path)
    assert checkpoint is not None
    assert checkpoint.step == 2


def test_replaced_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from muster.checkpoint import _read

    path = write(tmp_path, 1)
    original = _read._read
    again = iter([True])

    def late(path: str, manifest, **how):  # type: ignore[no-untyped-def]
        if next(again, False):
            write_checkpoint(tmp_path, 1, {"new": np.ones(2)}, {"try": 2})
        return original(path, manifest, **how)

    monkeypatch.setattr(_read, "_read", late)
    checkpoint = read_checkpoint(path)
    assert checkpoint.metadata == {"try": 2}
    assert list(checkpoint.variables) == ["new"]
