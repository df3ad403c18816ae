"""``tf.quantization.fake_quant_*``, with numbers of TensorFlow 2.15."""

import numpy as np
import pytest

import muster_tensorflow as tf

quantization = tf.quantization
X = np.array([-1.3, -0.5, -0.01, 0.0, 0.26, 0.71, 1.2, 2.5], np.float32)


def test_numbers_and_gradients():
    low, high, x = tf.Variable(-0.6), tf.Variable(1.1), tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = quantization.fake_quant_with_min_max_vars(x, low, high, num_bits=4)
        total = tf.reduce_sum(y * tf.range(1.0, 9.0))
    wanted = [-0.566667, -0.453333, 0, 0, 0.226667, 0.68, 1.133333, 1.133333]
    np.testing.assert_allclose(y, wanted, atol=1e-5)
    of_x, of_low, of_high = tape.gradient(total, [x, low, high])
    assert (of_x.numpy().tolist(), float(of_low), float(of_high)) == ([0, 2, 3, 4, 5, 6, 0, 0], 1, 15)


def test_ranges():
    args = quantization.fake_quant_with_min_max_args
    wanted = [-5.176471, -1.976471, -0.047059, 0, 1.035294, 2.82353, 4.8, 5.97647]
    np.testing.assert_allclose(args(X * 4), wanted, atol=1e-5)
    narrow = [-1, -1 / 3, 0, 0, 1 / 3, 2 / 3, 1, 1]
    np.testing.assert_allclose(args(X, -1, 1, 3, True), narrow, atol=1e-5)
    by_channel = quantization.fake_quant_with_min_max_vars_per_channel(
        [[0.1, 2.0], [-3.0, 0.7]], [-1.0, 0.0], [1.0, 1.5], 4
    )
    np.testing.assert_allclose(by_channel, [[0.133333, 1.5], [-0.933333, 0.7]], atol=1e-5)
    positive = quantization.fake_quant_with_min_max_vars(X, 0.5, 2.0, num_bits=2)
    assert positive.numpy().tolist() == [0, 0, 0, 0, 0.5, 0.5, 1, 1.5]
    assert quantization.fake_quant_with_min_max_vars(X, 0.0, 0.0).numpy().tolist() == [0] * 8
    with pytest.raises(ValueError, match="between 2 and 16"):
        args(X, num_bits=1)
