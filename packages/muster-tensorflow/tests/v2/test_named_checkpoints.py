"""Checkpoints under names of the program's own."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import muster_tensorflow as tf
from muster import CheckpointNotFoundError
from muster.checkpoint import is_complete
from muster_tensorflow.programs.v2.checkpoints import _named_checkpoints


def test_save_to_any_prefix(tmp_path: Path) -> None:
    value = tf.Variable(1.0)
    checkpoint = tf.train.Checkpoint(value=value)
    prefix = str(tmp_path / "run" / "my_model")
    paths = []
    for number in (1, 2):
        value.assign(number)
        paths.append(checkpoint.save(prefix))
    assert paths == [f"{prefix}-1", f"{prefix}-2"]
    assert tf.train.latest_checkpoint(str(tmp_path / "run")) == f"{prefix}-2"
    assert sorted(os.listdir(tmp_path / "run")) == ["my_model-1", "my_model-2"]
    checkpoint.restore(paths[0]).assert_consumed()
    assert float(value) == 1.0
    assert checkpoint.save_counter == 1


def test_write_and_read(tmp_path: Path) -> None:
    value = tf.Variable(1.0)
    checkpoint = tf.train.Checkpoint(value=value)
    path = str(tmp_path / "state")
    for number in (3.0, 4.0):  # again, over what is there
        value.assign(number)
        assert checkpoint.write(path) == path
    assert checkpoint.save_counter == 0
    value.assign(0.0)
    checkpoint.read(path).assert_existing_objects_matched()
    assert float(value) == 4.0
    assert checkpoint.save_counter == 0
    with pytest.raises(CheckpointNotFoundError):
        checkpoint.read(str(tmp_path / "nothing"))


def test_a_manager_of_another_name(tmp_path: Path) -> None:
    value, calls = tf.Variable(0.0), []
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(value=value),
        tmp_path,
        2,
        checkpoint_name="model",
        init_fn=lambda: calls.append(1),
    )
    assert manager.restore_or_initialize() is None
    assert calls == [1]
    for number in range(4):
        value.assign(number)
        manager.save()
    assert [os.path.basename(path) for path in manager.checkpoints] == ["model-3", "model-4"]
    value.assign(9.0)
    assert manager.restore_or_initialize() == manager.latest_checkpoint == str(tmp_path / "model-4")
    assert (float(value), calls) == (3.0, [1])


def test_a_manager_saves_at_intervals(tmp_path: Path) -> None:
    step = tf.Variable(0, dtype="int64")
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(step=step), tmp_path, max_to_keep=3, step_counter=step, checkpoint_interval=5
    )
    saved: list[Any] = []
    for _ in range(12):
        saved.append(manager.save(checkpoint_number=int(step)) is not None)
        step.assign_add(1)
    assert [number for number, each in enumerate(saved) if each] == [0, 5, 10]
    assert os.path.basename(manager.latest_checkpoint) == "ckpt-10"
    assert manager.save(check_interval=False) is not None
    with pytest.raises(ValueError, match="`step_counter` should be passed"):
        tf.train.CheckpointManager(tf.train.Checkpoint(step=step), tmp_path, 3, checkpoint_interval=5)


def test_a_checkpoint_that_is_deleted_meanwhile_is_not_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = tf.train.Checkpoint(w=tf.Variable(1.0))
    kept, deleted = (checkpoint.save(tmp_path / "model") for _ in range(2))

    def complete_and_then_deleted(path: str) -> bool:
        found = is_complete(path)
        if path == deleted:
            shutil.rmtree(path)
        return found

    monkeypatch.setattr(_named_checkpoints, "is_complete", complete_and_then_deleted)
    assert tf.train.latest_checkpoint(tmp_path) == kept
