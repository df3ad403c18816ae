"""``tf.compat.v1.train.Saver`` in eager code, and checkpoints of names in ``tf.train.Checkpoint``."""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf
from muster._errors import CheckpointMismatchError
from tensorflow_checkpoints import recorded, value_of

v1 = tf.compat.v1


def variables(*values: float) -> list[Any]:
    a, b = tf.Variable(values[0], name="a"), tf.Variable([values[1]] * 2, name="scoped/b")
    with v1.variable_scope("scoped"):
        return [a, b, v1.get_variable("c", [], initializer=v1.constant_initializer(values[2]))]


def values_of(of: list[Any]) -> list[Any]:
    return [each.numpy().tolist() for each in of]


def test_variables_are_saved_by_name_and_restored(tmp_path: Path) -> None:
    path = v1.train.Saver(variables(1.0, 2.0, 3.0)).save(None, tmp_path / "new" / "it")
    assert path == str(tmp_path / "new" / "it")
    assert tf.train.list_variables(path) == [("a", []), ("scoped/b", [2]), ("scoped/c", [])]
    others = variables(0.0, 0.0, 0.0)
    v1.train.Saver(var_list=others).restore(sess=None, save_path=path)
    assert values_of(others) == [1.0, [2.0, 2.0], 3.0]
    one = tf.Variable(0.0)
    v1.train.Saver({"scoped/c": one}).restore(None, path)
    assert float(one) == 3.0
    v1.train.Saver({"a": one}).save(None, path)
    assert tf.train.list_variables(path) == [("a", [])]


def test_old_checkpoints_are_deleted(tmp_path: Path) -> None:
    saver = v1.train.Saver(variables(1.0, 2.0, 3.0), max_to_keep=2)
    paths = [saver.save(None, tmp_path / "it", global_step=step) for step in (1, tf.constant(2), np.int64(3))]
    assert paths == [str(tmp_path / f"it-{step}") for step in (1, 2, 3)]
    assert saver.last_checkpoints == paths[1:]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["it-2", "it-3"]
    assert tf.train.latest_checkpoint(tmp_path) == paths[2]


def test_tensorflows_checkpoint_of_names_is_restored_by_either() -> None:
    prefix, said = recorded("custom_model_fn")
    kernel, bias = (value_of(said["variables"][f"dense/{name}"]) for name in ("kernel", "bias"))
    with tf.name_scope("dense"):
        found = [
            tf.Variable(np.zeros_like(kernel), name="kernel"),
            tf.Variable(np.zeros_like(bias), name="bias"),
        ]
    v1.train.Saver(found).restore(None, prefix)
    np.testing.assert_array_equal(found[0], kernel)
    np.testing.assert_array_equal(found[1], bias)

    layer = tf.keras.layers.Dense(3, name="dense")
    layer.build((None, 6))
    status = tf.train.Checkpoint(layer=layer).restore(prefix)
    status.assert_existing_objects_matched().run_restore_ops()
    np.testing.assert_array_equal(layer.kernel, kernel)
    np.testing.assert_array_equal(layer.bias, bias)


def test_tensorflows_checkpoint_goes_into_code_of_tensorflow_1() -> None:
    class Model(tf.keras.layers.Layer):
        @v1.keras.utils.track_tf1_style_variables
        def call(self, x: Any) -> Any:
            x = v1.layers.dense(x, 6, name="hidden")
            return v1.layers.dense(v1.layers.batch_normalization(x), 3)

    prefix, said = recorded("custom_model_fn")
    layer = Model()
    layer(np.ones((1, 1), np.float32))
    tf.train.Checkpoint(layer=layer).restore(prefix)
    for each in layer.weights:
        np.testing.assert_array_equal(each, value_of(said["variables"][each.name.removesuffix(":0")]))


def test_what_cannot_be_done_says_what_to_do(tmp_path: Path) -> None:
    prefix, _ = recorded("custom_model_fn")
    with pytest.raises(ValueError, match=r"To save in eager code.* got None"):
        v1.train.Saver().save(None, tmp_path / "it")
    with pytest.raises(ValueError, match=r"There are no sessions: give None for 'session'"):
        v1.train.Saver(variables(1.0, 2.0, 3.0)).save("session", tmp_path / "it")
    with pytest.raises(ValueError, match="Key a, scoped/b, scoped/c not found"):
        v1.train.Saver(variables(1.0, 2.0, 3.0)).restore(None, prefix)
    with pytest.raises(ValueError, match=r"dense/bias has the shape \(\), and \(3,\) in the checkpoint"):
        v1.train.Saver({"dense/bias": tf.Variable(0.0)}).restore(None, prefix)
    with pytest.raises(CheckpointMismatchError, match=r"is a checkpoint of names.* lacks other\. "):
        tf.train.Checkpoint(it=tf.Variable(0.0, name="other")).restore(prefix)


def test_an_old_checkpoint_that_is_gone_already_is_no_error(tmp_path: Path) -> None:
    saver = v1.train.Saver(variables(1.0, 2.0, 3.0), max_to_keep=1)
    shutil.rmtree(saver.save(None, tmp_path / "it", 1))
    assert saver.save(None, tmp_path / "it", 2) == str(tmp_path / "it-2")


@pytest.mark.parametrize("kind", ["Saver", "Checkpoint"])
def test_a_checkpoint_stays_when_the_new_one_does_not_get_to_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path, rename = str(tmp_path / "it"), os.rename
    variable = tf.Variable(1.0, name="a")
    saver, checkpoint = v1.train.Saver([variable]), tf.train.Checkpoint(a=variable)

    def save() -> None:
        if kind == "Saver":
            saver.save(None, path)
        else:
            checkpoint.write(path)

    def fails(source: str, target: str) -> None:
        if target == path and not source.endswith("replaced"):
            raise KeyboardInterrupt
        rename(source, target)

    save()
    variable.assign(2.0)
    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", fails)
        with pytest.raises(KeyboardInterrupt):
            save()
    if kind == "Saver":
        saver.restore(None, path)
    else:
        checkpoint.read(path)
    assert float(variable) == 1.0
    assert os.listdir(tmp_path) == ["it"]
