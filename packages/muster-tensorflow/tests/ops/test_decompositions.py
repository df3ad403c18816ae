"""Decompositions of matrices, which are unique but for signs: their products are the matrices."""

import numpy as np

import muster_tensorflow as tf

MATRIX = np.random.default_rng(0).normal(size=(2, 4, 3)).astype(np.float32)


def test_svd():
    s, u, v = tf.linalg.svd(MATRIX)
    assert (s.shape, u.shape, v.shape) == ((2, 3), (2, 4, 3), (2, 3, 3))
    np.testing.assert_allclose(u * s[:, None] @ tf.linalg.adjoint(v), MATRIX, atol=1e-5)
    assert tf.linalg.svd(MATRIX, full_matrices=True)[1].shape == (2, 4, 4)


def test_qr():
    q, r = tf.linalg.qr(MATRIX)
    np.testing.assert_allclose(q @ r, MATRIX, atol=1e-5)
    np.testing.assert_allclose(r, np.triu(r), atol=1e-6)
    assert tf.linalg.qr(MATRIX, full_matrices=True)[0].shape == (2, 4, 4)


def test_eigh():
    symmetric = MATRIX @ MATRIX.swapaxes(-1, -2)
    values, vectors = tf.linalg.eigh(symmetric)
    assert (np.diff(values) >= 0).all()
    np.testing.assert_allclose(vectors * values[:, None] @ tf.linalg.adjoint(vectors), symmetric, atol=1e-4)
