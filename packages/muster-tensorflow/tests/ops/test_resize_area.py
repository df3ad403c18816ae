"""``tf.image.resize`` by areas, with values of TensorFlow 2.15."""

import numpy as np

import muster_tensorflow as tf

IMAGES = np.arange(35, dtype=np.float32).reshape(1, 5, 7, 1)


def test_sizes_that_do_not_divide():
    smaller = tf.image.resize(IMAGES**1.5, (3, 4), method="area").numpy()
    assert smaller.shape == (1, 3, 4, 1)
    np.testing.assert_allclose(smaller[0, 0, :, 0], [8.369, 13.025, 18.92, 25.754], atol=1e-3)
    np.testing.assert_allclose(smaller[0, 2, :, 0], [130.642, 143.858, 157.486, 171.514], atol=1e-3)


def test_larger_images():
    larger = tf.image.resize(IMAGES**1.5, (7, 9), method=tf.image.ResizeMethod.AREA).numpy()[0, ..., 0]
    expected = [0.0, 0.714, 1.784, 3.167, 5.196, 7.599, 9.817, 12.185, 14.697]
    np.testing.assert_allclose(larger[0], expected, atol=1e-3)
    np.testing.assert_allclose(larger[6, ::4], [148.162, 172.601, 198.252], atol=1e-3)


def test_sizes_that_divide_are_means_of_pixels():
    halved = tf.image.resize(np.arange(16, dtype=np.uint8).reshape(4, 4, 1), (2, 2), method="area")
    assert halved.dtype == tf.float32
    np.testing.assert_allclose(halved.numpy()[..., 0], [[2.5, 4.5], [10.5, 12.5]])
