"""Normalization with its moments, dropout by a function, labels, isotonic fits; values are TensorFlow's."""

import numpy as np
import pytest

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1

IMAGES = np.arange(32.0, dtype=np.float32).reshape(2, 4, 4, 1)


def test_fused_batch_norm() -> None:
    made, mean, variance = tf1.nn.fused_batch_norm(IMAGES, [2.0], [1.0])
    np.testing.assert_allclose(made[0, 0, :, 0], [-2.357469, -2.140858, -1.924247, -1.707636], rtol=1e-5)
    np.testing.assert_allclose([mean[0], variance[0]], [15.5, 88.0])
    given = {"mean": [3.0], "variance": [4.0], "is_training": False}
    made, mean, variance = tf1.nn.fused_batch_norm(IMAGES, [2.0], [1.0], **given)
    np.testing.assert_allclose(made[0, 0, :, 0], [-1.999625, -0.99975, 0.000125, 1], atol=1e-5)
    np.testing.assert_allclose([mean[0], variance[0]], [3, 4])
    old = tf1.nn.fused_batch_norm(IMAGES, [2.0], [1.0], [3.0], [4.0], exponential_avg_factor=0.5)
    np.testing.assert_allclose([old[1][0], old[2][0]], [9.25, 46])
    with pytest.raises(ValueError, match="is_training"):
        tf1.nn.fused_batch_norm(IMAGES, [2.0], [1.0], is_training=False)
    turned = tf1.nn.fused_batch_norm(IMAGES.transpose(0, 3, 1, 2), [2.0], [1.0], data_format="NCHW")
    np.testing.assert_allclose(turned[0][0, 0, 0], [-2.357469, -2.140858, -1.924247, -1.707636], rtol=1e-5)


def test_global_normalization() -> None:
    made = tf.nn.batch_norm_with_global_normalization(
        IMAGES, [3.0], [4.0], np.float32([1.0]), [2.0], 0.001, True
    )
    np.testing.assert_allclose(made[0, 0, :, 0], [-1.999625, -0.99975, 0.000125, 1], atol=1e-5)


def test_relu_layer() -> None:
    found = tf1.nn.relu_layer([[1.0, -2.0]], [[1.0, -1.0], [0.5, 2.0]], [0.1, 0.2])
    np.testing.assert_allclose(found, [[0.1, 0]], atol=1e-6)


def test_labels() -> None:
    rows, lengths = tf.nn.collapse_repeated([[1, 1, 2, 2, 1], [1, 2, 3, 4, 4]], [5, 4])
    np.testing.assert_array_equal(rows, [[1, 2, 1, 0], [1, 2, 3, 4]])
    np.testing.assert_array_equal(lengths, [3, 4])
    labels, places = tf.nn.ctc_unique_labels([[3, 4, 4, 3], [2, 2, 2, 0]])
    np.testing.assert_array_equal(labels, [[3, 4, 0, 0], [2, 0, 0, 0]])
    np.testing.assert_array_equal(places, [[0, 1, 1, 0], [0, 0, 0, 1]])


def test_isotonic_regression() -> None:
    x = tf.constant([3.0, 1.0, 2.0, 0.0, 5.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        output, segments = tf.nn.isotonic_regression(x)
        total = tf.reduce_sum(output * np.arange(5.0, dtype=np.float32))
    np.testing.assert_allclose(output, [3, 2, 2, 2, 2])
    np.testing.assert_array_equal(segments, [0, 1, 1, 1, 1])
    np.testing.assert_allclose(tape.gradient(total, x), [0, 2.5, 2.5, 2.5, 2.5])
    rising = tf.nn.isotonic_regression([[3.0, 1.0, 2.0, 0.0, 5.0]], decreasing=False)[0]
    np.testing.assert_allclose(rising, [[1.5, 1.5, 1.5, 1.5, 5]])


def test_dropout_by_a_function_and_by_a_seed() -> None:
    ones = np.ones((100, 10), np.float32)
    drop = tf.nn.experimental.stateless_dropout
    found = np.asarray(drop(ones, 0.5, seed=[1, 2]))
    np.testing.assert_array_equal(found, drop(ones, 0.5, seed=[1, 2]))
    assert set(np.unique(found)) == {0, 2}
    assert 0.4 < found.mean() / 2 < 0.6
    rows = np.asarray(drop(ones, 0.5, seed=[1, 2], noise_shape=[100, 1]))
    assert (rows == rows[:, :1]).all()
    kept = tf.nn.experimental.general_dropout(ones, 0.5, lambda shape, dtype: np.full(shape, 0.7, dtype))
    np.testing.assert_array_equal(kept, ones * 2)
