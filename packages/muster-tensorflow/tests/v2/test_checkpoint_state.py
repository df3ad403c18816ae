"""Which checkpoints a directory has, and waiting for new ones."""

import shutil

import numpy as np
import pytest

import muster_tensorflow as tf
from muster._errors import CheckpointError
from muster.checkpoint import checkpoint_path, write_checkpoint
from tensorflow_checkpoints import recorded


def written(folder, *steps):
    for step in steps:
        write_checkpoint(folder, step, {"w": np.zeros(1, np.float32)}, {})
    return [checkpoint_path(str(folder), step) for step in steps]


def test_the_state_of_a_directory(tmp_path):
    assert tf.train.get_checkpoint_state(tmp_path) is None
    assert tf.train.get_checkpoint_state(tmp_path / "nowhere") is None
    paths = written(tmp_path, 3, 10)
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert state.model_checkpoint_path == paths[1]
    assert [*state.all_model_checkpoint_paths] == paths
    first, second = state.all_model_checkpoint_timestamps
    assert 0 < first <= second


def test_the_state_of_tensorflows_directory_where_it_is_now(tmp_path):
    prefix, _ = recorded("custom_model_fn")
    shutil.copytree(prefix.parent, tmp_path / "moved")
    here = str(tmp_path / "moved" / prefix.name)
    (tmp_path / "moved" / "checkpoint").write_text(
        f'model_checkpoint_path: "/elsewhere/{prefix.name}"\n'
        f'all_model_checkpoint_paths: "/elsewhere/gone"\nall_model_checkpoint_paths: "{prefix.name}"\n'
        "all_model_checkpoint_timestamps: 1.5\nall_model_checkpoint_timestamps: 2.5\n"
    )
    state = tf.train.get_checkpoint_state(tmp_path / "moved")
    assert state.model_checkpoint_path == here
    assert state.all_model_checkpoint_paths == ("/elsewhere/gone", here)
    assert state.all_model_checkpoint_timestamps == (1.5, 2.5)
    (tmp_path / "moved" / "checkpoint").write_text("{")
    with pytest.raises(CheckpointError, match="does not say which checkpoint is the newest"):
        tf.train.get_checkpoint_state(tmp_path / "moved")


def test_each_new_checkpoint_is_yielded_once(tmp_path):
    asked = []

    def timeout_fn():
        asked.append(len(asked))
        if len(asked) == 1:
            written(tmp_path, 1, 2)
        return len(asked) > 1

    found = tf.train.checkpoints_iterator(tmp_path, timeout=0.05, timeout_fn=timeout_fn)
    assert [*found] == [checkpoint_path(str(tmp_path), 2)]
    assert asked == [0, 1]


def test_without_a_function_the_time_ends_the_iteration(tmp_path):
    (path,) = written(tmp_path, 5)
    assert [*tf.train.checkpoints_iterator(str(tmp_path), timeout=0.0)] == [path]
