"""Edit distances, with values of TensorFlow 2.15."""

import jax
import numpy as np
import pytest

import muster_tensorflow as tf


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


def test_rows_of_a_step():
    def rows(lists):
        padded = [[*row, *[0] * (4 - len(row))] for row in lists]
        return np.array(padded, np.int32)

    found, truth = rows([[1, 2, 3, 4], [5], [], [], [7, 8]]), rows([[2, 3, 4], [5], [], [6, 6], [8, 7, 9]])

    def distances(one, other, normalize):
        return tf.edit_distance(tf.sparse.from_dense(one), tf.sparse.from_dense(other), normalize)

    for normalize in (True, False):
        in_step = jax.jit(lambda *pair, n=normalize: distances(*pair, n))(found, truth)
        np.testing.assert_allclose(in_step, distances(found, truth, normalize))
    of_empty = jax.jit(lambda *pair: distances(*pair, True))(found[:1], 0 * truth[:1])
    assert of_empty.tolist() == [np.inf]


def test_numbers_of_higher_rank():
    found = tf.sparse.from_dense([[[1, 2], [3, 0]]])
    truth = tf.sparse.from_dense([[[1, 3], [3, 4]], [[0, 0], [5, 0]]])
    np.testing.assert_array_equal(tf.edit_distance(found, truth), [[0.5, 0.5], [0, 1]])


def test_ranks():
    with pytest.raises(ValueError, match="hypothesis has 2 axes, truth 3: both must have the same"):
        tf.edit_distance(sparse(["a"]), tf.sparse.from_dense([[[1]]]))
