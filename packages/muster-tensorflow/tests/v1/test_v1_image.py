"""``tf.compat.v1.image``: sizes as TensorFlow 1 changed them; the numbers are TensorFlow 2.15's."""

from typing import Any

import jax
import numpy as np
import pytest

import muster_tensorflow as tf2
import muster_tensorflow.compat.v1 as tf

IMAGES = np.arange(2 * 4 * 5, dtype="float32").reshape(2, 4, 5, 1) % 7
BILINEAR = {
    (3, 3, False): [
        [0.0, 1.6667, 3.3333],
        [4.3333, 2.8889, 2.2222],
        [1.6667, 3.3333, 4.2222],
    ],
    (3, 3, True): [[0.0, 2.0, 4.0], [4.0, 2.5, 1.0], [1.0, 3.0, 5.0]],
}
NEAREST = {
    (3, 3, False): [[0.0, 1.0, 3.0], [5.0, 6.0, 1.0], [3.0, 4.0, 6.0]],
    (3, 3, True): [[0.0, 2.0, 4.0], [3.0, 5.0, 0.0], [1.0, 3.0, 5.0]],
}


@pytest.mark.parametrize(("height", "width", "align_corners"), [(3, 3, False), (3, 3, True)])
def test_sizes_are_changed_as_in_tensorflow_1(height, width, align_corners):
    for function, expected, method in (
        (tf.image.resize_bilinear, BILINEAR, tf.image.ResizeMethod.BILINEAR),
        (tf.image.resize_nearest_neighbor, NEAREST, tf.image.ResizeMethod.NEAREST_NEIGHBOR),
    ):
        given = function(IMAGES, (height, width), align_corners=align_corners)
        np.testing.assert_allclose(given[0, ..., 0], expected[height, width, align_corners], atol=1e-4)
        in_steps = jax.jit(lambda x, f=function: f(x, (height, width), align_corners=align_corners))(IMAGES)
        np.testing.assert_allclose(given, in_steps, atol=1e-6)
        by_method = tf.image.resize_images(IMAGES[0], (height, width), method, align_corners)
        np.testing.assert_allclose(given[0], by_method, atol=1e-6)


def test_images_may_be_of_integers_and_unknown_batches():
    whole = np.arange(32, dtype="uint8").reshape(1, 4, 8, 1)
    assert tf.image.resize_images(whole, (8, 8)).dtype == np.float32
    assert tf.image.resize_images(whole, (4, 8)).dtype == np.uint8
    assert tf.image.resize_nearest_neighbor(whole, (8, 8)).dtype == np.uint8
    inputs = tf.keras.Input((4, 8, 1))
    assert tf.image.resize_bilinear(inputs, (2, 2)).shape == (None, 2, 2, 1)


def test_half_pixel_centers_are_those_of_tensorflow_2():
    for function, method in (
        (tf.image.resize_bilinear, "bilinear"),
        (tf.image.resize_nearest_neighbor, "nearest"),
    ):
        given = function(IMAGES, (8, 7), half_pixel_centers=True)
        np.testing.assert_array_equal(given, tf2.image.resize(IMAGES, (8, 7), method))


def test_the_ratio_may_be_kept_and_pixels_may_be_means():
    assert tf.image.resize(IMAGES, (8, 5), preserve_aspect_ratio=True).shape == (2, 4, 5, 1)
    assert tf.image.resize(IMAGES, (2, 10), preserve_aspect_ratio=True).shape == (2, 2, 2, 1)
    means = tf.image.resize_area(IMAGES, (2, 5))
    np.testing.assert_allclose(means, IMAGES.reshape(2, 2, 2, 5, 1).mean(2))
    np.testing.assert_array_equal(tf.image.resize_images(IMAGES, (2, 5), tf.image.ResizeMethod.AREA), means)


def test_what_it_cannot_is_refused():
    with pytest.raises(ValueError, match="tf.compat.v2.image.resize"):
        tf.image.resize_images(IMAGES, (8, 8), tf.image.ResizeMethod.BICUBIC)
    with pytest.raises(ValueError, match="align_corners"):
        tf.image.resize_area(IMAGES, (2, 5), align_corners=True)


@pytest.mark.parametrize(
    "resize",
    [
        *(lambda x, m=m: tf.image.resize_images(x, (4, 9), m) for m in ("bilinear", "nearest", "area")),
        *(lambda x, m=m: tf.image.resize_images(x, (4, 9), m, True) for m in ("bilinear", "nearest")),
        *(lambda x, m=m: tf2.image.resize(x, (4, 9), m) for m in ("bilinear", "nearest", "area")),
    ],
)
def test_images_of_sizes_that_an_export_does_not_know(resize: Any) -> None:
    sizes = jax.export.symbolic_shape("batch, height, width")
    shape = jax.ShapeDtypeStruct((*sizes, 3), np.float32)
    images = np.random.default_rng(1).random((2, 6, 5, 3), np.float32)
    exported = jax.export.export(jax.jit(resize))(shape)
    np.testing.assert_allclose(exported.call(images), resize(images), atol=1e-5)
