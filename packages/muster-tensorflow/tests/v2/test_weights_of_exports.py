"""Keras models and readers of checkpoints take the weights of exported models; paths are of every kind."""

import os
from pathlib import Path

import numpy as np
import pytest

import muster_tensorflow as tf
from muster.checkpoint import MappedArray, _mapped_array
from muster.checkpoint.tensorflow import read_either

keras = tf.keras
FORMS = {
    "text": str,
    "bytes": os.fsencode,
    "Path": Path,
    "variables": lambda path: f"{path}/variables/variables",
}


def model(*sizes):
    return keras.Sequential([keras.Input((3,)), *(keras.layers.Dense(size) for size in sizes)])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("by", ["tf.saved_model", "export", "save"])
def test_weights_of_an_exported_keras_model(tmp_path, form, by):
    """Whose layers have other numbers in another process, here the 9th to the 11th."""
    for _ in range(8):
        keras.layers.Dense(1)
    exported, path = model(2, 4, 1), str(tmp_path / "model")
    if by == "save" and form == "variables":
        form = "text"  # a folder of Keras' has none
    ways = {"export": exported.export, "save": exported.save}
    ways.get(by, lambda path: tf.saved_model.save(exported, path))(path)
    other = model(2, 4, 1)
    other.load_weights(FORMS[form](path))
    for one, another in zip(other.get_weights(), exported.get_weights(), strict=True):
        np.testing.assert_array_equal(one, another)


def test_weights_of_another_keras_model(tmp_path):
    tf.saved_model.save(model(2, 1), str(tmp_path / "model"))
    other = model(5, 1)
    before = other.get_weights()
    with pytest.raises(RuntimeError, match=r"/kernel has the shape \(3, 5\), and the export has"):
        other.load_weights(tmp_path / "model")
    with pytest.raises(RuntimeError, match="the export lacks it"):
        model(2, 1, 1).load_weights(tmp_path / "model")
    for one, another in zip(other.get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, another)


@pytest.mark.parametrize("form", FORMS)
def test_variables_of_an_export(tmp_path, form):
    exported = model(2, 1)
    tf.saved_model.save(exported, str(tmp_path / "model"))
    given = FORMS[form](tmp_path / "model")
    (name,) = (each for each, shape in tf.train.list_variables(given) if shape == [3, 2])
    kernel = exported.get_weights()[0]
    np.testing.assert_array_equal(tf.train.load_variable(given, name), kernel)
    reader = tf.train.load_checkpoint(given)
    assert reader.get_variable_to_dtype_map()[name] == np.float32
    np.testing.assert_array_equal(reader.get_tensor(name), kernel)

    def model_fn(features, labels, mode):
        out = tf.compat.v1.layers.dense(features, 2, name="mine")
        tf.compat.v1.train.init_from_checkpoint(given, {name: "mine/kernel"})
        loss = tf.reduce_mean(out)
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.0)
        step = optimizer.minimize(loss, tf.compat.v1.train.get_or_create_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)

    estimator = tf.estimator.Estimator(model_fn, tmp_path / "other")
    estimator.train(lambda: tf.data.Dataset.from_tensors((np.ones((4, 3), "float32"), np.ones(4))), steps=1)
    np.testing.assert_array_equal(estimator.get_variable_value("mine/kernel"), kernel)


@pytest.mark.parametrize("form", FORMS)
def test_a_checkpoint_restores_an_export(tmp_path, form):
    exported, path = model(2, 1), FORMS[form](tmp_path / "model")
    tf.saved_model.save(exported, str(tmp_path / "model"))
    for make in (lambda m: tf.train.Checkpoint(m), lambda m: tf.train.Checkpoint(model=m)):
        other = model(2, 1)
        make(other).restore(path).assert_consumed()
        for one, another in zip(other.get_weights(), exported.get_weights(), strict=True):
            np.testing.assert_array_equal(one, another)


def test_what_an_export_cannot_have_stays(tmp_path):
    exported = model(2, 1)
    tf.saved_model.save(exported, str(tmp_path / "model"))
    other, optimizer = model(2, 1), tf.keras.optimizers.Adam()
    optimizer.build(other.trainable_variables)
    optimizer.iterations.assign(5)
    status = tf.train.Checkpoint(net=other, optimizer=optimizer).restore(tmp_path / "model")
    np.testing.assert_array_equal(other.get_weights()[0], exported.get_weights()[0])
    assert int(optimizer.iterations) == 5
    status.expect_partial()
    for check in (status.assert_consumed, status.assert_existing_objects_matched):
        with pytest.raises(AssertionError, match="exported model, and has nothing of optimizer"):
            check()
    with pytest.raises(RuntimeError, match="no variables that it could have"):
        tf.train.Checkpoint(optimizer=optimizer).restore(tmp_path / "model")


def test_a_checkpoint_of_another_model_than_an_export(tmp_path):
    tf.saved_model.save(model(2, 1), str(tmp_path / "model"))
    other = model(5, 1)
    before = other.get_weights()
    with pytest.raises(RuntimeError, match=r"/kernel has the shape \(3, 5\), and the export has"):
        tf.train.Checkpoint(model=other).restore(tmp_path / "model")
    for one, another in zip(other.get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, another)
    module = tf.Module()
    module.v = tf.Variable([1.0])
    tf.saved_model.save(module, str(tmp_path / "module"))
    with pytest.raises(RuntimeError, match="exported module, whose variables have no names. Load it by"):
        tf.train.Checkpoint(module).restore(tmp_path / "module")


def test_large_weights_of_an_export_are_read_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(_mapped_array, "LEAST_MAPPED_BYTES", 24)
    monkeypatch.setattr(_mapped_array, "_PIECE_BYTES", 8)
    exported = model(2, 1)
    tf.saved_model.save(exported, str(tmp_path / "model"))
    read = read_either(tmp_path / "model", mapped=True)
    lies_in_file = {name: isinstance(each, MappedArray) for name, each in read.variables.items()}
    assert sorted(lies_in_file.values()) == [False, False, False, True]
    read.close()
    other = model(2, 1)
    other.load_weights(tmp_path / "model")
    third = model(2, 1)
    tf.train.Checkpoint(third).restore(tmp_path / "model")
    for each in (other, third):
        np.testing.assert_array_equal(each.get_weights()[0], exported.get_weights()[0])
    (name,) = (each for each, shape in tf.train.list_variables(tmp_path / "model") if shape == [3, 2])
    value = tf.train.load_variable(tmp_path / "model", name)
    assert isinstance(value, np.ndarray)
    np.testing.assert_array_equal(value, exported.get_weights()[0])


def test_bytes_are_paths(tmp_path):
    trained = model(2, 1)
    trained.save(os.fsencode(tmp_path / "model.keras"))
    trained.save_weights(os.fsencode(tmp_path / "of.weights.h5"))
    for other in (keras.models.load_model(os.fsencode(tmp_path / "model.keras")), model(2, 1)):
        other.load_weights(os.fsencode(tmp_path / "of.weights.h5"))
        for one, another in zip(other.get_weights(), trained.get_weights(), strict=True):
            np.testing.assert_array_equal(one, another)
    saved = tf.train.Checkpoint(model=trained).save(os.fsencode(tmp_path / "saved" / "one"))
    assert tf.train.latest_checkpoint(os.fsencode(tmp_path / "saved")) == saved
    tf.train.Checkpoint(model=model(2, 1)).restore(os.fsencode(saved))
