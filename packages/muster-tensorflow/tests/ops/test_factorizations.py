"""Eigenvalues, LU, and matrices of a few diagonals; the values are TensorFlow's."""

from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

A = np.array([[4.0, 1.0, 2.0], [1.0, 3.0, 0.0], [2.0, 5.0, 6.0]], np.float32)
B = [[2.0, 3.0, 4.0], [1.0, 2.0, 3.0]]
DIAGONALS = np.array([[1.0, 2.0, 99.0], [4.0, 5.0, 6.0], [99.0, 1.0, 2.0]], np.float32)
DENSE = np.array([[4.0, 1.0, 0.0], [1.0, 5.0, 2.0], [0.0, 2.0, 6.0]], np.float32)
RIGHT = np.array([[1.0, 2.0], [2.0, 3.0], [3.0, 5.0]], np.float32)

CASES = [
    ("lurec", lambda: tf.linalg.lu_reconstruct(*tf.linalg.lu(A)), [[4, 1, 2], [1, 3, 0], [2, 5, 6]]),
    (
        "luinv",
        lambda: tf.linalg.lu_matrix_inverse(*tf.linalg.lu(A)),
        [[0.28125, 0.0625, -0.09375], [-0.09375, 0.3125, 0.03125], [-0.015625, -0.28125, 0.171875]],
    ),
    (
        "lusolve",
        lambda: tf.linalg.lu_solve(*tf.linalg.lu(A), rhs=[[1.0], [2.0], [3.0]]),
        [[0.125], [0.625], [-0.0625]],
    ),
    (
        "logm",
        lambda: tf.linalg.logm(tf.constant([[2.0, 1.0], [0.0, 3.0]], tf.complex64)),
        [[(0.693147 + 0j), (0.405465 + 0j)], [0j, (1.09861 + 0j)]],
    ),
    (
        "eigvals",
        lambda: tf.linalg.eigvals(np.array([[2.0, 1.0], [0.0, 3.0]], np.float32)),
        [(2 + 0j), (3 + 0j)],
    ),
    ("eight", lambda: tf.linalg.eigh_tridiagonal([1.0, 2.0, 3.0], [0.5, 1.0]), [0.707887, 1.64714, 3.64497]),
    (
        "eighi",
        lambda: tf.linalg.eigh_tridiagonal([1.0, 2.0, 3.0], [0.5, 1.0], select="i", select_range=(1, 2)),
        [1.64714, 3.64497],
    ),
    (
        "eighr",
        lambda: tf.linalg.eigh_tridiagonal([1.0, 2.0, 3.0], [0.5, 1.0], select="v", select_range=(1.0, 3.0)),
        [1.64714],
    ),
    ("btl", lambda: tf.linalg.banded_triangular_solve(B, [[1.0], [2.0], [3.0]]), [[0.5], [0.333333], [0.5]]),
    (
        "btu",
        lambda: tf.linalg.banded_triangular_solve(B, [[1.0], [2.0], [3.0]], lower=False),
        [[2], [-0.5], [1]],
    ),
    (
        "btla",
        lambda: tf.linalg.banded_triangular_solve(B, [[1.0], [2.0], [3.0]], adjoint=True),
        [[0.583333], [-0.0833333], [0.75]],
    ),
]


@pytest.mark.parametrize(("call", "expect"), [each[1:] for each in CASES], ids=[each[0] for each in CASES])
def test_values(call: Any, expect: Any) -> None:
    np.testing.assert_allclose(call(), expect, rtol=1e-4, atol=1e-5)


def test_lu_and_eig() -> None:
    factors, order = tf.linalg.lu(A)
    np.testing.assert_array_equal(order, [0, 2, 1])
    np.testing.assert_allclose(factors, [[4, 1, 2], [0.5, 4.5, 5], [0.25, 0.611111, -3.555556]], rtol=1e-5)
    values, vectors = tf.linalg.eig(A)
    np.testing.assert_allclose(A @ vectors, vectors * values, atol=1e-5)
    values, vectors = tf.linalg.eigh_tridiagonal([4.0, 5.0, 6.0], [1.0, 2.0], eigvals_only=False)
    np.testing.assert_allclose(DENSE @ vectors, vectors * values, atol=1e-5)


@pytest.mark.parametrize(
    ("diagonals", "form"),
    [(DIAGONALS, "compact"), (list(DIAGONALS), "sequence"), (DENSE, "matrix")],
    ids=["compact", "sequence", "matrix"],
)
def test_three_diagonals(diagonals: Any, form: str) -> None:
    found = tf.linalg.tridiagonal_solve(diagonals, RIGHT, form)
    np.testing.assert_allclose(DENSE @ found, RIGHT, rtol=1e-5)
    vector = tf.linalg.tridiagonal_solve(diagonals, RIGHT[:, 0], form)
    np.testing.assert_allclose(DENSE @ vector, RIGHT[:, 0], rtol=1e-5)
    turned = tf.linalg.tridiagonal_solve(diagonals, RIGHT.T, form, transpose_rhs=True)
    np.testing.assert_allclose(turned, found)
    np.testing.assert_allclose(tf.linalg.tridiagonal_matmul(diagonals, RIGHT, form), DENSE @ RIGHT)
