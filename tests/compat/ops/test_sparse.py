"""``tf.sparse.to_dense``, and layers that merge the values of a dict."""

import numpy as np
import pytest

import muster.compat.tensorflow as tf


def test_sparse_tensors_become_dense() -> None:
    given = tf.SparseTensor([[0, 1], [1, 0]], [5, 6], [2, 2])
    np.testing.assert_array_equal(tf.sparse.to_dense(given), [[0, 5], [6, 0]])
    np.testing.assert_array_equal(tf.sparse.to_dense(given, default_value=-1), [[-1, 5], [6, -1]])


def test_what_layers_give_becomes_dense() -> None:
    layer = tf.keras.layers.CategoryEncoding(num_tokens=4, output_mode="count", sparse=True)
    counts = layer(tf.constant([[1, 3, 1]]), count_weights=tf.constant([[0.5, 2.0, 0.25]]))
    np.testing.assert_allclose(tf.sparse.to_dense(counts), [[0, 0.75, 0, 2]])
    with pytest.raises(ValueError, match="default_value must be 0 for what a layer gives, got 1"):
        tf.sparse.to_dense(counts, 1)


@pytest.mark.parametrize(("layer", "expected"), [("Concatenate", [1, 2]), ("Add", [3])])
def test_the_values_of_a_dict_are_merged(layer: str, expected: list[float]) -> None:
    merge = getattr(tf.keras.layers, layer)
    inputs = {name: tf.keras.Input((1,), name=name) for name in ("a", "b")}
    model = tf.keras.Model(inputs, merge()(inputs.values()))
    given = {"a": np.float32([[1]]), "b": np.float32([[2]])}
    np.testing.assert_array_equal(model(given), [expected])
    np.testing.assert_array_equal(merge()(given.values()), [expected])
