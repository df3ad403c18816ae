"""Plain ``import keras`` beside compat: layers of text and datasets that need no TensorFlow."""

import keras
import numpy as np
import pytest
from keras import layers

import muster_tensorflow as tf


@pytest.mark.parametrize(
    "name", ["HashedCrossing", "Hashing", "IntegerLookup", "StringLookup", "TextVectorization"]
)
def test_that_layers_of_text_are_those_of_tf_keras(name):
    assert getattr(layers, name) is getattr(tf.keras.layers, name)


def test_a_model_of_plain_keras_that_reads_text(tmp_path):
    lookup = layers.StringLookup(vocabulary=["a", "b"])
    np.testing.assert_array_equal(lookup(["b", "z"]), [2, 0])
    model = keras.Sequential([keras.Input((1,), dtype="string"), lookup, layers.Embedding(3, 2)])
    model.save(tmp_path / "model.keras")
    read = keras.saving.load_model(tmp_path / "model.keras")
    expected = model.layers[-1].embeddings[2]
    np.testing.assert_array_equal(read.predict(tf.constant([["b"]]), verbose=0)[0, 0], expected)


@pytest.mark.parametrize("module", [keras.utils, keras.preprocessing])
def test_that_windows_are_a_dataset(module):
    series = np.arange(6.0)
    windows = module.timeseries_dataset_from_array(series, series[3:], sequence_length=3, batch_size=2)
    assert isinstance(windows, tf.data.Dataset)
    inputs, targets = next(iter(windows))
    np.testing.assert_array_equal(inputs, [[0, 1, 2], [1, 2, 3]])
    np.testing.assert_array_equal(targets, [3, 4])


def test_that_grain_is_left_to_keras():
    with pytest.raises(ValueError, match="format"):
        keras.utils.timeseries_dataset_from_array(np.arange(6.0), None, 3, format="torch")
