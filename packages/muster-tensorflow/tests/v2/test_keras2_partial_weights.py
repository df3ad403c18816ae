"""Weights of some of a model's layers, loaded by a name without an ending."""

import numpy as np
import pytest

import muster_tensorflow as tf


def model_of(*units):
    return tf.keras.Sequential(
        [tf.keras.Input((3,)), *(tf.keras.layers.Dense(each, name=f"dense_{each}") for each in units)]
    )


def test_layers_that_were_not_saved_keep_their_weights(tmp_path):
    saved, model = model_of(4), model_of(4, 5)
    before = model.layers[1].get_weights()
    saved.save_weights(tmp_path / "pretrained")

    status = model.load_weights(str(tmp_path / "pretrained"))

    np.testing.assert_array_equal(model.layers[0].kernel, saved.layers[0].kernel)
    np.testing.assert_array_equal(model.layers[1].kernel, before[0])
    assert status.expect_partial() is status
    with pytest.raises(AssertionError, match="dense_5"):
        status.assert_consumed()
    with pytest.raises(AssertionError, match="dense_5"):
        status.assert_existing_objects_matched()


def test_a_model_that_finds_all_says_so(tmp_path):
    model_of(4).save_weights(tmp_path / "pretrained")

    model_of(4).load_weights(tmp_path / "pretrained").assert_consumed()


def test_weights_of_other_shapes_are_refused(tmp_path):
    model_of(4).save_weights(tmp_path / "pretrained")

    with pytest.raises(ValueError, match="could not be loaded"):
        model_of(6).load_weights(tmp_path / "pretrained")


def test_files_of_keras_have_the_weights_of_all_layers(tmp_path):
    model_of(4).save_weights(tmp_path / "p.weights.h5")

    with pytest.raises(ValueError, match="could not be loaded"):
        model_of(4, 5).load_weights(tmp_path / "p.weights.h5")


def test_names_of_layers_come_first_by_position(tmp_path):
    saved, model, wide = model_of(4, 5), model_of(5, 4), tf.keras.Sequential([tf.keras.Input((3,))])
    wide.add(tf.keras.layers.Dense(6, name="dense_4"))
    saved.save_weights(tmp_path / "a.weights.h5")
    with pytest.raises(ValueError, match="shape"):
        model.load_weights(tmp_path / "a.weights.h5", True)
    wide.load_weights(tmp_path / "a.weights.h5", True, True)
    same = model_of(4)
    same.load_weights(tmp_path / "a.weights.h5", True)
    np.testing.assert_array_equal(same.layers[0].kernel, saved.layers[0].kernel)
    model_of(4, 5).load_weights(tmp_path / "a.weights.h5", False)
