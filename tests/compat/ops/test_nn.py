"""``tf.nn``."""

import jax
import numpy as np

import muster.compat.tensorflow as tf

X = np.array([[1.5, -2.0, 0.25], [4.0, 0.5, -1.0]], np.float32)


def test_cross_entropies_agree_with_each_other_and_with_numpy() -> None:
    labels = np.array([2, 0])
    probabilities = np.exp(X) / np.exp(X).sum(1, keepdims=True)
    expected = -np.log(probabilities[[0, 1], labels])
    sparse = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, X)
    dense = tf.nn.softmax_cross_entropy_with_logits(tf.one_hot(labels, 3), X)
    np.testing.assert_allclose(sparse, expected, rtol=1e-5)
    np.testing.assert_allclose(dense, expected, rtol=1e-5)
    assert np.isnan(jax.jit(tf.nn.sparse_softmax_cross_entropy_with_logits)(np.array([3, -1]), X)).all()
    z = np.float32([[0, 1, 1], [1, 0, 0]])
    sigmoid = 1 / (1 + np.exp(-X))
    np.testing.assert_allclose(
        tf.nn.sigmoid_cross_entropy_with_logits(z, X),
        -(z * np.log(sigmoid) + (1 - z) * np.log(1 - sigmoid)),
        rtol=1e-5,
    )


def test_in_top_k_counts_ties_for_the_target() -> None:
    scores = np.float32([[1, 3, 3], [2, 1, 0]])
    assert tf.nn.in_top_k([2, 2], scores, 1).tolist() == [True, False]
    assert tf.nn.top_k(scores, 2)[1].tolist() == [[1, 2], [0, 1]]
