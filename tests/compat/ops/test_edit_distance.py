"""Edit distances, with values of TensorFlow 2.15."""

import numpy as np
import pytest

import muster.compat.tensorflow as tf


def sparse(rows, width=8):
    places = [(row, column) for row, text in enumerate(rows) for column in range(len(text))]
    values = [letter for text in rows for letter in text]
    return tf.SparseTensor(np.reshape(places, (-1, 2)), values, (len(rows), width))


def test_words():
    found = sparse(["kitten", "flaw", "", "same", "a"])
    truth = sparse(["sitting", "lawn", "ab", "same", ""])
    exact = tf.edit_distance(found, truth, normalize=False)
    np.testing.assert_array_equal(exact.numpy(), [3, 2, 2, 0, 1])
    shares = tf.edit_distance(found, truth)
    np.testing.assert_allclose(shares.numpy(), [3 / 7, 0.5, 1, 0, np.inf])
    assert shares.dtype == tf.float32


def test_numbers_of_higher_rank():
    found = tf.sparse.from_dense([[[1, 2], [3, 0]]])
    truth = tf.sparse.from_dense([[[1, 3], [3, 4]], [[0, 0], [5, 0]]])
    np.testing.assert_array_equal(tf.edit_distance(found, truth), [[0.5, 0.5], [0, 1]])


def test_ranks():
    with pytest.raises(ValueError, match="hypothesis has 2 axes, truth 3: both must have the same"):
        tf.edit_distance(sparse(["a"]), tf.sparse.from_dense([[[1]]]))
