"""``tf.train.load_checkpoint`` and its kind read what TensorFlow wrote, and what muster wrote."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf
from muster._errors import CheckpointError, CheckpointNotFoundError
from muster.checkpoint import write_checkpoint
from tensorflow_checkpoints import recorded


def test_a_reader_has_tensorflows_methods() -> None:
    prefix, said = recorded("custom_model_fn")
    reader = tf.train.load_checkpoint(prefix.parent)
    shapes = reader.get_variable_to_shape_map()
    assert shapes == {name: each["shape"] for name, each in said["variables"].items()}
    assert reader.get_variable_to_dtype_map()["dense/kernel"] == tf.float32
    assert reader.has_tensor("dense/kernel")
    assert not reader.has_tensor("dense/kernel:0")
    np.testing.assert_array_equal(
        reader.get_tensor("dense/bias"), np.float32(said["variables"]["dense/bias"]["value"])
    )
    step = reader.get_tensor("global_step")
    assert isinstance(step, np.int64)
    assert step == 12
    with pytest.raises(KeyError, match="Key nothing not found in checkpoint"):
        reader.get_tensor("nothing")


def test_strings_are_bytes() -> None:
    prefix, said = recorded("object_based")
    graph = tf.train.load_variable(prefix, "_CHECKPOINTABLE_OBJECT_GRAPH")
    assert graph == bytes.fromhex(said["variables"]["_CHECKPOINTABLE_OBJECT_GRAPH"]["value"]["hex"])
    assert tf.train.load_checkpoint(prefix).get_variable_to_dtype_map()["_CHECKPOINTABLE_OBJECT_GRAPH"] == (
        tf.string
    )


@pytest.mark.parametrize("of", ["custom_model_fn", "v1_dnn_partitioned"])
def test_names_and_shapes_are_listed_in_order(of: str) -> None:
    prefix, said = recorded(of)
    expected = [(name, each["shape"]) for name, each in sorted(said["variables"].items())]
    assert tf.train.list_variables(prefix) == tf.train.list_variables(prefix.parent) == expected


def test_the_newest_is_found() -> None:
    prefix, _ = recorded("custom_model_fn")
    assert tf.train.latest_checkpoint(prefix.parent) == str(prefix)


def test_musters_own_checkpoints_are_read_alike(tmp_path: Path) -> None:
    kernel = np.arange(6, dtype=np.float32).reshape(2, 3)
    write_checkpoint(tmp_path, 3, {"dense/kernel": kernel}, {})
    path = write_checkpoint(tmp_path, 7, {"dense/kernel": kernel + 1, "global_step": np.int32(7)}, {})
    assert tf.train.latest_checkpoint(tmp_path) == path
    assert tf.train.list_variables(tmp_path) == [("dense/kernel", [2, 3]), ("global_step", [])]
    reader = tf.train.load_checkpoint(tmp_path)
    assert reader.get_variable_to_dtype_map() == {"dense/kernel": tf.float32, "global_step": tf.int32}
    assert reader.get_tensor("global_step") == 7
    np.testing.assert_array_equal(tf.train.load_variable(path, "dense/kernel:0"), kernel + 1)
    np.testing.assert_array_equal(tf.train.load_variable(tmp_path / "ckpt-3", "dense/kernel"), kernel)


def test_variables_of_objects_are_found_by_tensorflows_names(tmp_path: Path) -> None:
    class Net(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.l1 = tf.keras.layers.Dense(3)

        def call(self, x: Any) -> Any:
            return self.l1(x)

    net = Net()
    net(tf.ones([1, 2]))
    checkpoint = tf.train.Checkpoint(net=net, step=tf.Variable(5), kept={"a/b": [tf.Variable(1.5)]})
    reader = tf.train.load_checkpoint(checkpoint.save(tmp_path / "ckpt"))
    checkpoint.save(tmp_path / "own" / "net.ckpt")
    assert tf.train.list_variables(tmp_path / "own") == tf.train.list_variables(tmp_path)
    key = "net/l1/kernel/.ATTRIBUTES/VARIABLE_VALUE"
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    assert (shapes[key], dtypes[key].name, key in shapes) == ([2, 3], "float32", True)
    assert len(shapes) == 4
    np.testing.assert_array_equal(reader.get_tensor(key), net.get_weights()[0])
    assert reader.get_tensor("step/.ATTRIBUTES/VARIABLE_VALUE") == 5
    assert reader.has_tensor("kept/a.Sb/0/.ATTRIBUTES/VARIABLE_VALUE")
    assert not reader.has_tensor("kept/a.Sb/1/.ATTRIBUTES/VARIABLE_VALUE")
    with pytest.raises(KeyError, match="nothing"):
        _ = shapes["nothing"]


def test_a_saved_models_variables_are_read() -> None:
    prefix, said = recorded("saved_model_variables")
    assert tf.train.list_variables(prefix) == [
        (name, each["shape"]) for name, each in sorted(said["variables"].items())
    ]


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Couldn't find 'checkpoint' file or checkpoints in given directory"):
        tf.train.load_checkpoint(tmp_path)
    assert tf.train.latest_checkpoint(tmp_path) is None
    with pytest.raises(CheckpointNotFoundError, match="There is no TensorFlow checkpoint"):
        tf.train.load_checkpoint(tmp_path / "model.ckpt-1")


def test_a_part_of_a_slot_is_an_error_as_in_tensorflow() -> None:
    prefix, said = recorded("v1_dnn_partitioned")
    name = next(name for name, each in said["variables"].items() if "unreadable" in each)
    with pytest.raises(CheckpointError, match="has the values of a part of its variable only"):
        tf.train.load_variable(prefix, name)
