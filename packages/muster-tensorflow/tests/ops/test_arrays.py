"""TensorFlow's operations on NumPy values, which stay NumPy values, and while a step is traced."""

import jax
import numpy as np
import pytest

import muster_tensorflow as tf
from muster.data.pipeline._map import spread

X = np.array([[1.5, -2.0, 0.25], [4.0, 0.5, -1.0]], np.float32)

# Each gives the same on NumPy values, where it stays NumPy, and traced.
ON_BOTH = {
    "cast": (lambda x: tf.cast(x, tf.int32), np.array([[1, -2, 0], [4, 0, -1]], np.int32)),
    "reduce_sum": (lambda x: tf.reduce_sum(x, axis=1), np.float32([-0.25, 3.5])),
    "reduce_mean of integers": (lambda x: tf.reduce_mean(tf.cast(x, tf.int32)), np.int32(0)),
    "reduce_max keepdims": (lambda x: tf.reduce_max(x, [0], keepdims=True), np.float32([[4, 0.5, 0.25]])),
    "argmax": (lambda x: tf.cast(tf.argmax(x), tf.int32), np.int32([1, 1, 0])),
    "argmax of rows": (lambda x: tf.argmax(x, 1, output_type=tf.int32), np.int32([0, 0])),
    "squeeze": (lambda x: tf.squeeze(tf.expand_dims(x, 0), axis=[0]), X),
    "reshape": (lambda x: tf.reshape(x, [-1, 2]), X.reshape(3, 2)),
    "concat": (lambda x: tf.concat([x, x], axis=0), np.concatenate([X, X])),
    "stack": (lambda x: tf.stack([x, x], axis=1), np.stack([X, X], 1)),
    "transpose": (lambda x: tf.transpose(x, [1, 0]), X.T),
    "maximum with a number": (lambda x: tf.maximum(x, 0.0), np.maximum(X, 0)),
    "clip_by_value": (lambda x: tf.clip_by_value(x, -1, 1), np.clip(X, -1, 1)),
    "clip_by_norm": (lambda x: tf.clip_by_norm(x[0], 1.0), X[0] / np.linalg.norm(X[0])),
    "where": (lambda x: tf.where(x > 0, x, tf.zeros_like(x)), np.maximum(X, 0)),
    "one_hot": (lambda x: tf.one_hot(tf.cast(x[:, 0], tf.int32), 5), np.eye(5, dtype=np.float32)[[1, 4]]),
    "matmul": (lambda x: tf.matmul(x, x, transpose_b=True), X @ X.T),
    "pow": (lambda x: tf.pow(x, 2), X**2),
    "math.log1p": (lambda x: tf.math.log1p(tf.abs(x)), np.log1p(np.abs(X))),
    "equal": (lambda x: tf.equal(x, [[1.5, 0, 0.25], [4, 0.5, 0]]), X == [[1.5, 0, 0.25], [4, 0.5, 0]]),
    "split": (lambda x: tf.split(x, [1, 2], axis=1)[1], X[:, 1:]),
    "unstack": (lambda x: tf.unstack(x, axis=1)[2], X[:, 2]),
    "tile": (lambda x: tf.tile(x, [1, 2]), np.tile(X, (1, 2))),
    "gather": (lambda x: tf.gather(x, [2, 0], axis=1), X[:, [2, 0]]),
    "pad": (lambda x: tf.pad(x, [[0, 0], [1, 0]]), np.pad(X, ((0, 0), (1, 0)))),
    "cumsum": (lambda x: tf.cumsum(x, axis=1), np.cumsum(X, 1)),
    "add_n": (lambda x: tf.add_n([x, x, x]), X + X + X),
    "squared_difference": (lambda x: tf.math.squared_difference(x, 1.0), (X - 1) ** 2),
    "norm": (lambda x: tf.norm(x), np.float32(np.linalg.norm(X))),
    "broadcast_to": (lambda x: tf.broadcast_to(x[0], [2, 3]), np.stack([X[0], X[0]])),
    "reduce_all": (lambda x: tf.reduce_all(x > -3, axis=0), np.array([True, True, True])),
}


@pytest.mark.parametrize("name", ON_BOTH)
def test_operations_on_numpy_values_and_traced(name: str) -> None:
    operation, expected = ON_BOTH[name]
    on_host = spread(operation, X)  # as in a dataset's function
    assert isinstance(on_host, np.ndarray | np.generic)
    traced = jax.jit(operation)(X)
    for found in (on_host, traced):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_64_bit_types_are_respected_on_numpy_values() -> None:
    assert tf.cast(np.uint8(3), tf.int64).dtype == np.int64
    assert tf.cast(X, tf.float64).dtype == np.float64
    assert tf.argmax(X).dtype == np.int64
