"""Lost manifests and names: nothing is deleted or passed over, and what can be restored is."""

import logging
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from muster._errors import CheckpointError, DirectoryInUseError
from muster.checkpoint import (
    Checkpointer,
    WriterWatch,
    _layout,
    list_checkpoints,
    read_checkpoint,
    repair,
    restore_latest,
    stray_checkpoints,
    write_checkpoint,
)
from muster.checkpoint._lease import FILE_NAME as LOCK

VARIABLES = {
    "a/b": np.arange(6, dtype=np.float32).reshape(2, 3),
    "c": np.ones(2, ml_dtypes.float8_e4m3b11fnuz),
}


def write(directory: Path, step: int) -> Path:
    return Path(write_checkpoint(directory, step, VARIABLES, {"step": step}))


def data_file(path: Path) -> Path:
    (file,) = path.glob("variables-*")
    return file


def lose_manifest(path: Path) -> None:
    (path / "manifest.json").unlink()


def flip(file: Path, position: int) -> None:
    content = bytearray(file.read_bytes())
    content[position] ^= 1
    file.write_bytes(content)


def assert_whole(directory: Path, step: int) -> None:
    checkpoint = restore_latest(directory)
    assert checkpoint is not None
    assert (checkpoint.step, checkpoint.metadata) == (step, {"step": step})
    assert list(checkpoint.variables) == list(VARIABLES)
    for name, value in VARIABLES.items():
        assert checkpoint.variables[name].dtype == value.dtype
        np.testing.assert_array_equal(checkpoint.variables[name], value)
    assert stray_checkpoints(str(directory)) == {}


def flatten(path: Path) -> None:
    for file in path.iterdir():
        file.rename(path.parent / file.name)
    path.rmdir()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "no manifest": lose_manifest,
    "a damaged manifest": lambda path: flip(path / "manifest.json", 50),
    "a manifest that is a FIFO": lambda path: (lose_manifest(path), os.mkfifo(path / "manifest.json")),
    "a renamed data file": lambda path: data_file(path).rename(path / "weights.safetensors"),
    "another step's name": lambda path: path.rename(path.with_name("ckpt-999")),
    "another name": lambda path: path.rename(path.with_name("best")),
    "another name and no manifest": lambda path: (lose_manifest(path), path.rename(path.with_name("best"))),
    "files beside the model's": flatten,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_all_is_told_and_restored(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    damage(write(tmp_path, 5))
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(CheckpointError, match=rf"muster inspect --repair {tmp_path}\b"):
        restore_latest(tmp_path, set_aside=True)
    assert sorted(os.listdir(tmp_path)) == before
    assert len(repair(tmp_path)) == 1
    assert_whole(tmp_path, 5)
    assert repair(tmp_path) == []


def test_a_copy_of_a_directory_is_as_good(tmp_path: Path) -> None:
    write(tmp_path / "model", 5)
    with Checkpointer(tmp_path / "model"):  # its lock is copied, too
        shutil.copytree(tmp_path / "model", tmp_path / "model2")
    assert (tmp_path / "model2" / LOCK).exists()
    assert_whole(tmp_path / "model2", 5)
    with Checkpointer(tmp_path / "model2") as checkpointer:
        checkpointer.save(6, {}, {})
    assert [info.step for info in list_checkpoints(tmp_path / "model2")] == [5, 6]


def test_saving_deletes_none_of_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for step in (1, 2, 3):
        lose_manifest(write(tmp_path, step))
    with caplog.at_level(logging.WARNING), Checkpointer(tmp_path, max_to_keep=1) as checkpointer:
        for step in (2, 4):
            checkpointer.save(step, {}, {})
    assert sorted(os.listdir(tmp_path)) == ["ckpt-1", "ckpt-2.damaged", "ckpt-3", "ckpt-4"]
    assert f"{tmp_path / 'ckpt-2'} has no manifest.json: it is renamed to" in caplog.text
    assert len(repair(tmp_path)) == 3
    assert [info.step for info in list_checkpoints(tmp_path)] == [1, 2, 3, 4]


def test_the_newest_that_lost_its_manifest_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for step in (1, 2):
        write(tmp_path, step)
    lose_manifest(tmp_path / "ckpt-2")
    with caplog.at_level(logging.WARNING):
        checkpoint = restore_latest(tmp_path, set_aside=True)
    assert checkpoint is not None
    assert checkpoint.step == 1
    assert "ckpt-2 is damaged and was skipped (it has no manifest.json)" in caplog.text
    assert sorted(os.listdir(tmp_path)) == ["ckpt-1", "ckpt-2.damaged"]


def test_what_cannot_be_restored_is_told(tmp_path: Path) -> None:
    flip(data_file(write(tmp_path, 1)), -1)
    data_file(write(tmp_path, 2)).write_bytes(b"half")
    for step, size in ((3, -1), (4, 40)):
        path = write(tmp_path, step)
        lose_manifest(path)
        data_file(path).write_bytes(data_file(path).read_bytes()[:size])
    lose_manifest(write(tmp_path, 5))
    data_file(tmp_path / "ckpt-5").unlink()
    (tmp_path / "ckpt-5" / "notes").touch()
    shutil.copytree(write(tmp_path, 6), tmp_path / "copy")
    lines = repair(tmp_path)
    for line, reason in zip(
        lines,
        (
            "has checksum",
            "say what it holds",
            "were written",
            "say what it holds",
            "there are 0",
            "of the same step",
        ),
        strict=True,
    ):
        assert reason in line
        assert "not restored" in line
    assert [info.step for info in list_checkpoints(tmp_path)] == [1, 2, 6]
    assert read_checkpoint(tmp_path / "copy").step == 6


def test_a_writer_is_not_disturbed(tmp_path: Path) -> None:
    with Checkpointer(tmp_path), pytest.raises(DirectoryInUseError):
        repair(tmp_path)


def test_one_checkpoint_may_be_named(tmp_path: Path) -> None:
    path = write(tmp_path, 5)
    lose_manifest(path)
    assert len(repair(path)) == 1
    assert_whole(tmp_path, 5)


@pytest.mark.parametrize("stage", ["before the data", "after the data", "before the mark goes"])
def test_what_a_kill_leaves_is_no_lost_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """A process that is killed there is started again, and goes on from the checkpoint before."""

    class Kill(BaseException):
        pass

    def kill(*args: object) -> None:
        raise Kill

    write(tmp_path, 1)
    where, deadly = {
        "before the data": ("_write", "write_arrays"),
        "after the data": ("_write", "write_manifest"),
        "before the mark goes": ("_layout.shutil", "rmtree"),
    }[stage]
    with monkeypatch.context() as patch:
        patch.setattr(f"muster.checkpoint.{where}.{deadly}", kill)
        patch.setattr("muster.checkpoint._write._abandon", kill)
        with pytest.raises(Kill):
            _layout.delete_checkpoint(str(write(tmp_path, 2)))
    assert stray_checkpoints(str(tmp_path)) == {}
    assert repair(tmp_path) == []
    assert_whole(tmp_path, 1)
    with Checkpointer(tmp_path) as checkpointer:
        checkpointer.save(3, {}, {})
    assert sorted(os.listdir(tmp_path)) == ["ckpt-1", "ckpt-3"]


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.open(path.parent, os.O_RDONLY)
        bound.bind(f"/proc/self/fd/{here}/{path.name}")
        os.close(here)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "make",
    [os.mkfifo, make_socket, lambda path: path.symlink_to("/dev/tty")],
    ids=["FIFO", "socket", "device"],
)
@pytest.mark.parametrize("name", [LOCK, "ckpt-3", "ckpt-2/manifest.json", "ckpt-2/data", "best", "ckpt-4/x"])
def test_nothing_waits_for_what_is_no_file(tmp_path: Path, make: Callable[[Path], object], name: str) -> None:
    write(tmp_path, 1)
    place = tmp_path / name if name != "ckpt-2/data" else data_file(write(tmp_path, 2))
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    make(place)
    assert not WriterWatch(tmp_path).is_writing()
    list_checkpoints(tmp_path)
    stray_checkpoints(str(tmp_path))
    checkpoint = restore_latest(tmp_path, set_aside=True)
    assert checkpoint is not None
    assert checkpoint.step == 1
    if name == LOCK:
        with pytest.raises(CheckpointError, match=r"writer\.lock is not a regular file"):
            Checkpointer(tmp_path)
    else:
        repair(tmp_path)
        with Checkpointer(tmp_path) as checkpointer:
            checkpointer.save(9, {}, {})
        assert 9 in [info.step for info in list_checkpoints(tmp_path)]
