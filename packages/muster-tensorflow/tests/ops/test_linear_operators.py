"""``tf.linalg.LinearOperator`` against dense matrices."""

import numpy as np
import pytest

import muster_tensorflow as tf

L = tf.linalg
RANDOM = np.random.default_rng(0)
MATRIX = RANDOM.normal(size=(3, 3)).astype(np.float32) + 3 * np.eye(3, dtype=np.float32)
SPD = (MATRIX @ MATRIX.T).astype(np.float32)
X = RANDOM.normal(size=(3, 2)).astype(np.float32)


def full(matrix, **options):
    return L.LinearOperatorFullMatrix(matrix, **options)


OPERATORS = {
    "full": lambda: (full(MATRIX), MATRIX),
    "spd": lambda: (full(SPD, is_self_adjoint=True, is_positive_definite=True), SPD),
    "lower": lambda: (L.LinearOperatorLowerTriangular(MATRIX), np.tril(MATRIX)),
    "diag": lambda: (L.LinearOperatorDiag([1.0, -2.0, 4.0]), np.diag([1.0, -2.0, 4.0])),
    "identity": lambda: (L.LinearOperatorIdentity(3), np.eye(3)),
    "scaled": lambda: (L.LinearOperatorScaledIdentity(3, 2.5), 2.5 * np.eye(3)),
    "composed": lambda: (
        L.LinearOperatorComposition([full(MATRIX), L.LinearOperatorDiag([1.0, 2.0, 3.0])]),
        MATRIX @ np.diag([1.0, 2.0, 3.0]),
    ),
    "blocks": lambda: (
        L.LinearOperatorBlockDiag([full(MATRIX[:2, :2]), L.LinearOperatorIdentity(1)]),
        np.block([[MATRIX[:2, :2], np.zeros((2, 1))], [np.zeros((1, 2)), np.ones((1, 1))]]),
    ),
    "kronecker": lambda: (
        L.LinearOperatorKronecker([L.LinearOperatorIdentity(1), full(MATRIX)]),
        np.kron(np.eye(1), MATRIX),
    ),
    "low rank": lambda: (
        L.LinearOperatorLowRankUpdate(L.LinearOperatorDiag([4.0, 5.0, 6.0]), X, [1.0, 2.0]),
        np.diag([4.0, 5.0, 6.0]) + X @ np.diag([1.0, 2.0]) @ X.T,
    ),
    "adjoint": lambda: (full(MATRIX).adjoint(), MATRIX.T),
    "inverse": lambda: (full(MATRIX).inverse(), np.linalg.inv(MATRIX)),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_do_what_their_matrices_do(name):
    operator, dense = OPERATORS[name]()
    near = {"rtol": 2e-4, "atol": 2e-4}
    np.testing.assert_allclose(operator.to_dense(), dense, **near)
    np.testing.assert_allclose(operator.matmul(X), dense @ X, **near)
    np.testing.assert_allclose(operator.matmul(X, adjoint=True), dense.T @ X, **near)
    np.testing.assert_allclose(operator.matvec(X[:, 0]), dense @ X[:, 0], **near)
    np.testing.assert_allclose(operator.solve(X), np.linalg.solve(dense, X), **near)
    np.testing.assert_allclose(operator.solve(X, adjoint=True), np.linalg.solve(dense.T, X), **near)
    np.testing.assert_allclose(operator.solvevec(X[:, 1]), np.linalg.solve(dense, X[:, 1]), **near)
    np.testing.assert_allclose(operator.determinant(), np.linalg.det(dense), rtol=1e-3)
    np.testing.assert_allclose(operator.log_abs_determinant(), np.linalg.slogdet(dense)[1], **near)
    np.testing.assert_allclose(operator.diag_part(), np.diag(dense), **near)
    np.testing.assert_allclose(operator.trace(), np.trace(dense), **near)
    np.testing.assert_allclose(operator.H.to_dense(), dense.T, **near)
    np.testing.assert_allclose(operator.inverse().matmul(X), np.linalg.solve(dense, X), **near)
    np.testing.assert_allclose((operator @ operator).to_dense(), dense @ dense, rtol=1e-3, atol=1e-3)
    assert (operator.shape.as_list(), operator.tensor_rank, operator.is_square) == ([3, 3], 2, True)


def test_batches_and_variables():
    scale = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    operator = L.LinearOperatorDiag(scale, is_positive_definite=True)
    assert (operator.batch_shape.as_list(), operator.domain_dimension) == ([2], 2)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(operator.matvec(tf.ones([2])))
    assert tape.gradient(total, scale).numpy().tolist() == [[1, 1], [1, 1]]
    scale.assign([[1.0, 1.0], [4.0, 9.0]])
    assert operator.cholesky().diag_part().numpy().tolist() == [[1, 1], [2, 3]]
    assert operator.add_to_tensor(np.ones((2, 2), np.float32))[1].numpy().tolist() == [[5, 1], [1, 10]]
    np.testing.assert_allclose(full(SPD, is_self_adjoint=True).eigvals(), np.linalg.eigvalsh(SPD), rtol=1e-4)


def test_what_operators_refuse():
    with pytest.raises(NotImplementedError, match="expected to be singular"):
        L.LinearOperatorZeros(3).solve(X)
    with pytest.raises(NotImplementedError, match="expected to not be square"):
        full(X).solve(X)
    with pytest.raises(ValueError, match="Not a positive definite self adjoint matrix"):
        full(MATRIX).cholesky()
    with pytest.raises(ValueError, match="takes 3 rows, got 2"):
        full(MATRIX).matmul(X.T)
    assert L.LinearOperatorZeros(2, 3).to_dense().numpy().tolist() == [[0] * 3] * 2
