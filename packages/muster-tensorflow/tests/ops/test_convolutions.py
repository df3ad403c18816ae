"""``tf.nn``'s convolutions, pooling and normalization; numbers are those of TensorFlow 2.15."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1

IMAGE = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)


def flat(found: Any) -> list[float]:
    return np.asarray(found).ravel().tolist()


@pytest.mark.parametrize("strides", [2, [2, 2], [1, 2, 2, 1]])
def test_convolutions(strides: Any) -> None:
    kernel = np.ones((3, 3, 1, 1), np.float32)
    assert flat(tf.nn.conv2d(IMAGE, kernel, strides, "SAME")) == [45, 39, 66, 50]
    assert flat(tf1.nn.conv2d(IMAGE, filter=kernel, strides=strides, padding="SAME")) == [45, 39, 66, 50]


def test_other_layouts_of_images() -> None:
    kernel = np.ones((3, 3, 1, 1), np.float32)
    turned = IMAGE.transpose(0, 3, 1, 2)
    found = tf.nn.conv2d(turned, kernel, [1, 1, 2, 2], "SAME", data_format="NCHW")
    assert found.shape == (1, 1, 2, 2)
    assert flat(found) == [45, 39, 66, 50]
    line = np.arange(6, dtype=np.float32).reshape(1, 6, 1)
    assert flat(tf.nn.conv1d(line, np.ones((3, 1, 1), np.float32), 2, "SAME")) == [3, 9, 9]
    with pytest.raises(ValueError, match="'VALID', or a pair of numbers for each axis; got 'same'"):
        tf.nn.conv2d(IMAGE, kernel, 1, "same")
    with pytest.raises(ValueError, match="1, 2 or 4 numbers"):
        tf.nn.conv2d(IMAGE, kernel, [1, 1, 1], "SAME")
    with pytest.raises(TypeError, match="needs filter, strides and padding"):
        tf1.nn.conv2d(IMAGE)


def test_windows() -> None:
    assert flat(tf.nn.max_pool2d(IMAGE, 3, 2, "SAME")) == [10, 11, 14, 15]
    assert flat(tf.nn.avg_pool2d(IMAGE, 3, 2, "SAME")) == [5, 6.5, 11, 12.5]
    sizes = [1, 2, 2, 1]
    assert flat(tf1.nn.max_pool(value=IMAGE, ksize=sizes, strides=sizes, padding="VALID")) == [5, 7, 13, 15]


def test_channels_are_shifted_and_scaled() -> None:
    x = np.array([[1.0, 2.0]])
    assert flat(tf.nn.batch_normalization(x, np.array([0.5, 1]), np.array([4.0, 1]), 1.0, 2.0, 0)) == [1.5, 3]
    assert flat(tf.nn.batch_normalization(x, 0.0, np.array([4.0, 1]), None, None, 0)) == [0.5, 2]
    assert flat(tf.nn.bias_add(x, np.array([1.0, 2]))) == [2, 4]
    assert tf.nn.bias_add(np.zeros((1, 2, 3, 3)), np.array([1.0, 2]), "NCHW")[0, :, 0, 0].tolist() == [1, 2]
    assert flat(tf1.nn.xw_plus_b(x, np.array([[1.0], [3]]), np.array([2.0]))) == [9]


def test_activations() -> None:
    np.testing.assert_allclose(tf.nn.swish(np.array([1.0, 2]), beta=2.0), [0.8807971, 1.9640275], rtol=1e-6)
    assert float(tf.nn.zero_fraction(np.array([0.0, 1, 0, 2]))) == 0.5
    loss = tf.nn.weighted_cross_entropy_with_logits(np.array([1.0, 0]), np.array([0.5, -1]), 2.0)
    np.testing.assert_allclose(loss, [0.948154, 0.31326175], rtol=1e-6)
    logits = np.array([[1.0, 2.0]])
    assert flat(tf1.nn.softmax(logits, dim=0)) == [1, 1]


def test_dropout_takes_a_rate_or_what_it_keeps() -> None:
    ones = np.ones((100, 100), np.float32)
    for dropped in (
        tf.nn.dropout(ones, 0.25),
        tf1.nn.dropout(ones, keep_prob=0.75),
        tf1.nn.dropout(ones, rate=0.25),
    ):
        kept = np.asarray(dropped) != 0
        np.testing.assert_allclose(np.asarray(dropped)[kept], 1 / 0.75, rtol=1e-6)
        assert 0.7 < kept.mean() < 0.8
    whole = np.asarray(tf.nn.dropout(ones, 0.5, noise_shape=[100, 1]))
    assert (whole.min(1) == whole.max(1)).all()
    with pytest.raises(ValueError, match="either keep_prob or rate"):
        tf1.nn.dropout(ones)


def test_rows_are_not_longer_than_the_largest_norm() -> None:
    table = np.array([[3.0, 4.0], [0.3, 0.4]])
    np.testing.assert_allclose(tf.nn.embedding_lookup(table, [0, 1], max_norm=1.0), [[0.6, 0.8], [0.3, 0.4]])
    np.testing.assert_allclose(tf1.nn.embedding_lookup([table], [1], "div", None), [[0.3, 0.4]])
    with pytest.raises(ValueError, match="takes one table"):
        tf1.nn.embedding_lookup([table, table], [1])


def test_moments_take_the_old_name_of_an_argument() -> None:
    mean, variance = tf1.nn.moments(jax.numpy.array([[1.0, 3.0]]), [1], keep_dims=True)
    assert (mean.tolist(), variance.tolist()) == ([[2.0]], [[1.0]])
    assert tf.nn.moments(jnp.ones((2, 2)), [0], None, True)[0].shape == (1, 2)
