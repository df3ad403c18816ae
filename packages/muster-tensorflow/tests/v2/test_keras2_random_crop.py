"""``RandomCrop`` in all kinds of steps; it fails when what is used of Keras changes."""

import contextlib

import numpy as np
import pytest

import muster_tensorflow as tf

IMAGES = np.broadcast_to(np.arange(36, dtype="float32").reshape(6, 6, 1), (8, 6, 6, 1))
SCOPES = {
    "no strategy": contextlib.nullcontext,
    "mirrored": lambda: tf.distribute.MirroredStrategy(["cpu:0", "cpu:1"]).scope(),
}


def is_window(image):
    """Return whether an image of shape (4, 3) is a part of the first of `IMAGES`."""
    return np.array_equal(image, image[0, 0] + np.arange(6 * 4).reshape(4, 6)[:, :3])


def test_a_function_crops_at_a_place_that_it_draws():
    crop = tf.keras.layers.RandomCrop(4, 3)
    compiled = tf.function(lambda images: crop(images, training=True))
    found = [np.asarray(compiled(IMAGES))[..., 0] for _ in range(8)]
    assert all(image.shape == (4, 3) and is_window(image) for images in found for image in images)
    assert len({float(images[0, 0, 0]) for images in found}) > 1


def test_channels_may_come_first():
    crop = tf.keras.layers.RandomCrop(4, 3, data_format="channels_first")
    found = tf.function(lambda images: crop(images, training=True))(np.moveaxis(IMAGES, -1, 1))
    assert found.shape == (8, 1, 4, 3)
    assert is_window(np.asarray(found)[0, 0])


def test_images_get_their_size_without_training_too():
    found = tf.keras.layers.RandomCrop(4, 4)(IMAGES, training=False)[0, :2, :, 0]
    assert found.tolist() == [[1.75, 3.25, 4.75, 6.25], [10.75, 12.25, 13.75, 15.25]]  # TensorFlow 2.15's
    turned = np.moveaxis(IMAGES, -1, 1)
    first = tf.keras.layers.RandomCrop(4, 3, data_format="channels_first")(turned, training=False)
    assert first.shape == (8, 1, 4, 3)


@pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES.keys())
def test_it_may_be_a_part_of_a_model(scope):
    class Model(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.crop = tf.keras.layers.RandomCrop(4, 3)
            self.head = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)])

        def call(self, x, training=False):
            return self.head(self.crop(x, training=training))

    with scope():
        model = Model()
        model.compile("sgd", "mse")
    history = model.fit(IMAGES / 36, np.ones((8, 1)), epochs=2, verbose=0).history
    assert np.all(np.isfinite(history["loss"]))
    assert model.predict(IMAGES / 36, verbose=0).shape == (8, 1)
