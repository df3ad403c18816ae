"""The background writer: order, errors, what it deletes, and readers beside it."""

import logging
import os
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muster._errors import CheckpointError
from muster.checkpoint import (
    Checkpointer,
    _arrays,
    _checkpointer,
    _layout,
    latest_checkpoint,
    list_checkpoints,
    read_checkpoint,
    restore_latest,
    write_checkpoint,
)
from muster.checkpoint._lease import FILE_NAME

DEADLINE = 30.0


def steps(directory: Path) -> list[int]:
    return [info.step for info in list_checkpoints(directory)]


class Gate:
    """Holds the writing thread until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()
        original = _checkpointer.write_snapshot

        def held(*args: Any) -> str:
            self.reached.set()
            if not self.open.wait(DEADLINE):
                raise TimeoutError
            return original(*args)

        monkeypatch.setattr(_checkpointer, "write_snapshot", held)


def fill_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the system refuses each byte of data: no space left on device."""

    def full(path: str, mode: str, **options: Any) -> Any:
        Path(path).touch()
        return open("/dev/full", "wb", **options)

    monkeypatch.setattr(_arrays, "open", full, raising=False)


def test_a_save_does_not_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    with Checkpointer(tmp_path) as checkpointer:
        metadata = {"position": [1]}
        checkpointer.save(1, {"w": np.ones(2)}, metadata)
        assert gate.reached.wait(DEADLINE)
        assert steps(tmp_path) == []
        metadata["position"].append(2)  # the caller goes on
        gate.open.set()
        checkpointer.wait()
        assert steps(tmp_path) == [1]
    checkpoint = restore_latest(tmp_path)
    assert checkpoint is not None
    assert checkpoint.metadata == {"position": [1]}


def test_whether_a_save_is_under_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    with Checkpointer(tmp_path) as checkpointer:
        assert not checkpointer.is_writing()
        checkpointer.save(1, {}, {})
        assert checkpointer.is_writing()
        assert checkpointer.is_writing(0.01)
        gate.open.set()
        assert not checkpointer.is_writing(DEADLINE)


def test_a_second_save_waits_for_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    with Checkpointer(tmp_path) as checkpointer:
        checkpointer.save(1, {}, {})
        second = threading.Thread(target=checkpointer.save, args=(2, {}, {}))
        second.start()
        second.join(0.05)
        assert second.is_alive()
        gate.open.set()
        second.join(DEADLINE)
        assert steps(tmp_path)[0] == 1
    assert steps(tmp_path) == [1, 2]


def test_save_and_wait(tmp_path: Path) -> None:
    with Checkpointer(tmp_path) as checkpointer:
        checkpointer.save(1, {}, {}, wait=True)
        assert steps(tmp_path) == [1]


@pytest.mark.parametrize("surface", ["save", "wait", "close", "exit", "save and wait"])
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, surface: str) -> None:
    checkpointer = Checkpointer(tmp_path)
    checkpointer.save(1, {"w": np.ones(3)}, {}, wait=True)
    with monkeypatch.context() as patch:
        fill_the_disk(patch)
        calls: dict[str, Callable[[], object]] = {
            "save": lambda: checkpointer.save(3, {}, {}),
            "wait": checkpointer.wait,
            "close": checkpointer.close,
            "exit": lambda: checkpointer.__exit__(None, None, None),
            "save and wait": lambda: checkpointer.save(2, {"w": np.zeros(1000)}, {}, wait=True),
        }
        if surface != "save and wait":
            checkpointer.save(2, {"w": np.zeros(1000)}, {})
        with pytest.raises(CheckpointError) as info:
            calls[surface]()
    message = str(info.value)
    assert f"{tmp_path / 'ckpt-2'} was not written: No space left on device" in message
    assert "needs 8000 bytes" in message
    assert "bytes are free" in message
    assert isinstance(info.value.__cause__, OSError)
    assert "write_arrays" in "".join(traceback.format_exception(info.value))
    assert set(os.listdir(tmp_path)) - {FILE_NAME} == {"ckpt-1"}
    if surface in ("close", "exit"):
        checkpointer.close()  # it was told once
    else:
        checkpointer.save(2, {}, {})  # there is room again
        checkpointer.close()
        assert steps(tmp_path) == [1, 2]


def test_a_full_disk_leaves_the_checkpoint_that_was_to_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_checkpoint(tmp_path, 1, {"w": np.ones(3)}, {})
    before = sorted(os.listdir(path))
    with monkeypatch.context() as patch:
        fill_the_disk(patch)
        with pytest.raises(CheckpointError, match="No space left"):
            write_checkpoint(tmp_path, 1, {"w": np.zeros(3)}, {})
    assert sorted(os.listdir(path)) == before
    np.testing.assert_array_equal(read_checkpoint(path).variables["w"], np.ones(3))


def test_an_error_under_way_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fill_the_disk(monkeypatch)

    def fail() -> None:
        with Checkpointer(tmp_path) as checkpointer:
            checkpointer.save(1, {"w": np.ones(1)}, {})
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert "No space left" in caplog.text


def test_wrong_arguments_are_told_at_once(tmp_path: Path) -> None:
    with Checkpointer(tmp_path) as checkpointer:
        with pytest.raises(TypeError, match="JSON"):
            checkpointer.save(1, {}, {"a": object()})
        with pytest.raises(TypeError, match="'w'"):
            checkpointer.save(1, {"w": np.array("text")}, {})
        with pytest.raises(ValueError, match="-3"):
            checkpointer.save(-3, {}, {})
        checkpointer.save(1, {}, {})
    assert steps(tmp_path) == [1]
    with pytest.raises(CheckpointError, match="closed"):
        checkpointer.save(2, {}, {})


@pytest.mark.parametrize("where", ["file", "file/below", "/proc/nothing/here"])
def test_a_directory_that_cannot_be_written(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="cannot be written to .* Choose a directory") as info:
        Checkpointer(tmp_path / where)
    assert isinstance(info.value.__cause__, OSError)


def test_making_one_leaves_an_empty_directory(tmp_path: Path) -> None:
    Checkpointer(tmp_path / "a" / "b").close()
    assert os.listdir(tmp_path / "a" / "b") == []


def test_the_next_save_sweeps_what_a_kill_left(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1, {}, {})
    for step in (2, 5):
        (tmp_path / f"ckpt-{step}").mkdir()
        (tmp_path / f"ckpt-{step}" / "variables-0.safetensors").write_bytes(b"half")
        (tmp_path / f"ckpt-{step}" / "manifest.json.tmp").touch()
    (tmp_path / "ckpt-1" / "variables-0.safetensors").write_bytes(b"half")
    (tmp_path / "eval").mkdir()
    restore_latest(tmp_path)
    with Checkpointer(tmp_path) as checkpointer:
        assert sorted(os.listdir(tmp_path)) == ["ckpt-1", "ckpt-2", "ckpt-5", "eval", FILE_NAME]
        checkpointer.save(1, {}, {})
        checkpointer.save(2, {}, {})
    assert sorted(os.listdir(tmp_path)) == ["ckpt-1", "ckpt-2", "eval"]
    for name in ("ckpt-1", "ckpt-2"):
        assert "variables-0.safetensors" not in os.listdir(tmp_path / name)


def test_what_cannot_be_deleted_does_not_stop_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(_layout, "delete_checkpoint", refuse)
    with caplog.at_level(logging.WARNING), Checkpointer(tmp_path, max_to_keep=1) as checkpointer:
        checkpointer.save(1, {}, {})
        checkpointer.save(2, {}, {})
    assert steps(tmp_path) == [1, 2]
    assert f"The old checkpoint {tmp_path / 'ckpt-1'} cannot be deleted" in caplog.text


def test_the_manifest_goes_first_and_the_mark_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_checkpoint(tmp_path, 1, {}, {})
    seen = []
    unlink = os.unlink

    def watched(*args: Any, **options: Any) -> None:
        seen.append(sorted(name.partition("-")[0] for name in os.listdir(path)))
        unlink(*args, **options)

    monkeypatch.setattr(os, "unlink", watched)
    _layout.delete_checkpoint(path)
    assert seen == [["manifest.json.tmp", "variables"], ["manifest.json.tmp"]]


def test_readers_beside_a_writer_that_deletes(tmp_path: Path) -> None:
    """Every read is whole, and never older than what was there when it began."""
    done = threading.Event()
    saved = [0]

    def write() -> None:
        try:
            with Checkpointer(tmp_path, max_to_keep=1) as checkpointer:
                for step in range(1, 81):
                    checkpointer.save(
                        step // 2 * 2, {"w": np.full(5000, step // 2 * 2)}, {"step": step // 2 * 2}
                    )
                    checkpointer.wait()
                    saved[0] = step // 2 * 2
        finally:
            done.set()

    writer = threading.Thread(target=write)
    writer.start()
    reads = 0
    while not done.is_set():
        at_least = saved[0]
        checkpoint = restore_latest(tmp_path)
        if checkpoint is None:
            assert reads == 0
            continue
        reads += 1
        assert checkpoint.step >= at_least
        assert checkpoint.metadata == {"step": checkpoint.step}
        assert (checkpoint.variables["w"] == checkpoint.step).all()
    writer.join(DEADLINE)
    assert saved == [80]
    assert reads > 5


@pytest.mark.parametrize("newest", [latest_checkpoint, lambda d: getattr(restore_latest(d), "path", None)])
def test_a_reader_looks_again_when_all_that_it_listed_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newest: Callable[[Path], str | None]
) -> None:
    with Checkpointer(tmp_path, max_to_keep=1) as checkpointer:
        checkpointer.save(1, {"w": np.ones(1)}, {}, wait=True)
        whole = _layout.is_complete

        def replaced(path: str) -> bool:
            monkeypatch.undo()
            checkpointer.save(2, {"w": np.ones(1)}, {}, wait=True)
            return whole(path)

        for module in ("_layout", "_read"):
            monkeypatch.setattr(f"muster.checkpoint.{module}.is_complete", replaced)
        assert newest(tmp_path) == str(tmp_path / "ckpt-2")


@pytest.mark.parametrize("newest", [latest_checkpoint, lambda d: getattr(restore_latest(d), "path", None)])
def test_a_reader_looks_again_when_the_last_became_whole_and_the_one_before_is_half_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newest: Callable[[Path], str | None]
) -> None:
    first = write_checkpoint(tmp_path, 1, {"w": np.ones(1)}, {})
    last = tmp_path / "ckpt-2"
    last.mkdir()
    whole = _layout.is_complete

    def finished_after(path: str) -> bool:
        if path == first:
            return whole(path)
        monkeypatch.undo()
        assert not whole(path)
        write_checkpoint(tmp_path, 2, {"w": np.ones(1)}, {})
        os.unlink(os.path.join(first, _layout.FILE_NAME))
        return False

    for module in ("_layout", "_read"):
        monkeypatch.setattr(f"muster.checkpoint.{module}.is_complete", finished_after)
    assert newest(tmp_path) == str(last)
