"""``adapt`` of ``Normalization`` and ``Discretization``; it fails when what is used of Keras changes."""

import numpy as np
import pytest

import muster_tensorflow as tf

X = np.random.default_rng(0).normal(5000, 2, size=(20, 3, 4)).astype("float32")


def adapted(data, axis):
    layer = tf.keras.layers.Normalization(axis=axis)
    layer.adapt(data)
    return layer


@pytest.mark.parametrize("axis", [-1, None, (1, 2), 2])
def test_a_dataset_is_as_its_array(axis):
    dataset = tf.data.Dataset.from_tensor_slices(X).batch(6)
    expected, found = adapted(X, axis), adapted(dataset, axis)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-6)
    np.testing.assert_allclose(found.variance, expected.variance, rtol=1e-3)
    np.testing.assert_allclose(found(X), expected(X), atol=2e-3)


def test_features_come_before_labels():
    pairs = tf.data.Dataset.from_tensor_slices((X[:, 0], np.zeros(20))).batch(8)
    np.testing.assert_allclose(adapted(pairs, -1).mean, adapted(X[:, 0], -1).mean, rtol=1e-6)


def test_batches_may_be_of_one_number_an_example():
    numbers = tf.data.Dataset.from_tensor_slices(X[:, 0, 0]).batch(8)
    np.testing.assert_allclose(adapted(numbers, None).mean, X[:, 0, 0].mean(), rtol=1e-6)


def test_a_dataset_must_have_elements():
    with pytest.raises(ValueError, match="without elements"):
        adapted(tf.data.Dataset.from_tensor_slices(X).batch(8).take(0), -1)


def test_a_layer_adapts_again_and_in_a_model():
    layer = tf.keras.layers.Normalization()
    dataset = tf.data.Dataset.from_tensor_slices(X[:, 0]).batch(8)
    layer.adapt(dataset)
    inputs = tf.keras.Input((4,))
    model = tf.keras.Model(inputs, layer(inputs))
    layer.adapt(dataset.map(lambda x: x + 100))
    np.testing.assert_allclose(model.predict(X[:, 0] + 100, verbose=0).mean(0), np.zeros(4), atol=1e-2)


def test_only_some_steps_are_read():
    dataset = tf.data.Dataset.from_tensor_slices(X).batch(10)
    layer = tf.keras.layers.Normalization()
    layer.adapt(dataset, batch_size=None, steps=1)
    np.testing.assert_allclose(layer.mean, adapted(X[:10], -1).mean, rtol=1e-6)


@pytest.mark.parametrize("data", ["array", "list", "dataset", "column"])
def test_bins_hold_as_many_numbers_each(data):
    numbers = np.arange(50, dtype=np.float32)
    dataset = tf.data.Dataset.from_tensor_slices(numbers).batch(8)
    layer = tf.keras.layers.Discretization(num_bins=4)
    kinds = {"array": numbers, "list": numbers.tolist(), "dataset": dataset, "column": numbers[:, None]}
    layer.adapt(kinds[data])
    # TensorFlow 2.15's.
    np.testing.assert_allclose(layer.bin_boundaries, [11.5, 24.0, 36.5])
    assert layer(np.array([[0.0], [12.0], [49.0]])).numpy().tolist() == [[0], [1], [3]]


def test_bins_of_some_steps():
    layer = tf.keras.layers.Discretization(num_bins=2)
    layer.adapt(tf.data.Dataset.from_tensor_slices(np.arange(50.0)).batch(10), steps=1)
    assert layer.bin_boundaries == [4.0]  # TensorFlow 2.15's


def test_boundaries_that_were_given_are_not_learnt():
    with pytest.raises(ValueError, match="num_bins instead"):
        tf.keras.layers.Discretization(bin_boundaries=[1.0]).adapt(X)


@pytest.mark.parametrize("of", [list, "pandas"], ids=["list", "data frame"])
def test_normalization_of_a_table(of):
    rows = [[1.0, 10.0], [3.0, 30.0]]
    data = rows if of is list else pytest.importorskip("pandas").DataFrame(rows)
    layer = tf.keras.layers.Normalization(axis=-1)
    layer.adapt(data)
    np.testing.assert_allclose(layer(np.array([[1.0, 30.0]], "float32")), [[-1, 1]], atol=1e-6)
