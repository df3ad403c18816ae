"""Linear algebra, segments and functions of single values; numbers are those of TensorFlow 2.15."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1
from muster import TraceError


def same(found: Any, expected: Any) -> bool:
    return np.asarray(found).tolist() == expected


def test_sums_of_products() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    assert same(tf.einsum("ij,jk->ik", a, b), (a @ b).tolist())
    assert same(tf.tensordot(a, b, 1), (a @ b).tolist())
    assert same(tf.tensordot(a, b, [[1], [0]]), (a @ b).tolist())
    assert same(tf.linalg.matvec(a, np.array([1.0, 0, 2])), [4, 13])


def test_matrices() -> None:
    numbers = np.arange(9.0).reshape(3, 3)
    assert same(tf.linalg.band_part(numbers, 1, 0), [[0, 0, 0], [3, 4, 0], [0, 7, 8]])
    assert same(tf.linalg.band_part(numbers, -1, 0), np.tril(numbers).tolist())
    assert same(tf.linalg.diag([1, 2]), [[1, 0], [0, 2]])
    assert same(tf.linalg.diag_part(numbers), [0, 4, 8])
    assert float(tf.linalg.trace(numbers)) == 12
    matrix = np.array([[2.0, 1.0], [1.0, 3.0]])
    np.testing.assert_allclose(tf.linalg.inv(matrix) @ matrix, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(tf.linalg.det(matrix), 5)
    lower = tf.linalg.cholesky(matrix)
    np.testing.assert_allclose(lower @ lower.T, matrix)
    np.testing.assert_allclose(matrix @ tf.linalg.solve(matrix, np.eye(2)), np.eye(2), atol=1e-12)
    assert same(tf.norm(np.array([[3.0, 4.0]]), keepdims=True), [[5]])


def test_sums_along_an_axis() -> None:
    assert same(tf.cumsum([1, 2, 3], exclusive=True, reverse=True), [5, 3, 0])
    assert same(tf.cumsum([[1, 2], [3, 4]], axis=1), [[1, 3], [3, 7]])
    assert same(tf.math.cumprod([2.0, 3.0, 4.0], exclusive=True), [1, 2, 6])
    assert same(tf.math.cumprod(jnp.array([2.0, 3.0, 4.0]), reverse=True), [24, 12, 4])
    assert same(tf.math.count_nonzero([[0, 1], [2, 3]], axis=0), [1, 2])


def test_values_that_would_not_be_numbers() -> None:
    assert same(tf.math.divide_no_nan([1.0, 2.0], [0.0, 4.0]), [0, 0.5])
    assert same(tf.math.multiply_no_nan(np.array([np.inf, 2.0]), np.array([0.0, 4.0])), [0, 8])
    np.testing.assert_allclose(tf.math.log_sigmoid(np.zeros(1)), [-np.log(2)], rtol=1e-6)


def test_segments() -> None:
    data = np.array([[1.0, 2], [3, 4], [5, 6]])
    assert same(tf.math.segment_sum(data, [0, 0, 1]), [[4, 6], [5, 6]])
    assert same(tf.math.segment_mean(data, [0, 0, 2]), [[2, 3], [0, 0], [5, 6]])
    assert same(tf.math.unsorted_segment_sum(np.array([1, 2, 3]), [1, 0, 1], 3), [2, 4, 0])
    least = np.finfo(np.float32).min
    assert same(tf.math.unsorted_segment_max(np.float32([1, 2, 3]), [1, 0, 1], 3), [2, 3, float(least)])
    with pytest.raises(TraceError, match="use tf.math.unsorted_segment_sum"):
        jax.jit(lambda ids: tf.math.segment_sum(data, ids))(jnp.array([0, 0, 1]))


def test_counts() -> None:
    matrix = tf.math.confusion_matrix([1, 2, 4], [2, 2, 4])
    assert np.argwhere(np.asarray(matrix)).tolist() == [[1, 2], [2, 2], [4, 4]]
    assert matrix.shape == (5, 5)
    assert same(tf.math.confusion_matrix([0, 1], [0, 0], 2, weights=[2, 3]), [[2, 0], [3, 0]])
    assert same(tf1.confusion_matrix([0, 1], [0, 0], 2, tf.int32, "name", [2, 3]), [[2, 0], [3, 0]])
    assert same(tf.math.bincount([1, 1, 3]), [0, 2, 0, 1])
    assert same(tf.math.bincount([1, 1, 3], minlength=6), [0, 2, 0, 1, 0, 0])
    assert same(tf.math.bincount([1, 1, 3], maxlength=2), [0, 2])
    assert same(tf.math.bincount([1, 2], weights=[0.5, 2.0]), [0, 0.5, 2])
    with pytest.raises(TraceError, match="needs num_classes"):
        jax.jit(tf.math.confusion_matrix)(jnp.array([1]), jnp.array([1]))


def test_arguments_in_tensorflows_order() -> None:
    np.testing.assert_allclose(tf.atan2(y=1.0, x=0.0), np.pi / 2, rtol=1e-6)
    matrix = np.array([[1 + 2j, 0], [3, 1j]])
    assert same(tf.matmul(matrix, matrix, adjoint_a=True), (matrix.conj().T @ matrix).tolist())
    assert tf.convert_to_tensor(1, dtype_hint=tf.float64).dtype == tf.float64
    assert tf.convert_to_tensor("a", None, tf.float64).tolist() == "a"
    sparse = tf.SparseTensor([[0, 1]], [5], [1, 2])
    assert same(tf1.sparse_tensor_to_dense(sparse, -1, False, "name"), [[-1, 5]])


def test_division_of_tensorflow_1() -> None:
    assert same(tf1.div([7, -7], [2, 2]), [3, -4])
    assert same(tf1.div([7.0, -7.0], [2.0, 2.0]), [3.5, -3.5])
    assert same(tf.zeros_like([1.5], dtype=tf.int32), [0])
    assert tf.eye(2, batch_shape=[3]).shape == (3, 2, 2)
