"""Layers that change the size of images in input functions."""

import jax
import numpy as np
import pytest

import muster_tensorflow as tf
from muster import TraceError

layers = tf.keras.layers
IMAGES = np.random.default_rng(0).uniform(size=(2, 10, 20, 3)).astype(np.float32)


@pytest.mark.parametrize(("kind", "axis"), [(layers.RandomHeight, 1), (layers.RandomWidth, 2)])
def test_sizes_change_while_training(kind, axis):
    layer = kind((-0.5, 0.5), seed=1)
    shapes = [layer(IMAGES, training=True).shape for _ in range(6)]
    sizes = {shape[axis] for shape in shapes}
    assert len(sizes) > 2
    assert all(IMAGES.shape[axis] // 2 <= size <= IMAGES.shape[axis] * 3 // 2 for size in sizes)
    assert {(shape[0], shape[3 - axis], shape[3]) for shape in shapes} == {(2, IMAGES.shape[3 - axis], 3)}
    np.testing.assert_array_equal(layer(IMAGES, training=False), IMAGES)
    half = kind((-0.5, -0.5))(IMAGES, training=True)
    size = [5 if axis == 1 else 10, 10 if axis == 2 else 20]
    np.testing.assert_allclose(half, tf.image.resize(IMAGES, size), atol=1e-6)
    again = kind.from_config(layer.get_config())
    assert (again.factor, again.seed) == ((-0.5, 0.5), 1)
    assert layer(tf.keras.Input((10, 20, 3))).shape[axis] is None


def test_datasets_and_steps():
    layer = layers.RandomHeight(0.4, seed=2)
    data = tf.data.Dataset.from_tensor_slices(IMAGES).repeat(3).map(lambda x: layer(x, training=True))
    assert len({each.shape[0] for each in data}) > 1
    with pytest.raises(TraceError, match="RandomHeight makes images of another size in each batch"):
        jax.jit(lambda x: layer(x, training=True))(IMAGES)
    for factor, message in (((0.5, -0.5), "lesser than the lower bound"), ((-2, 0.1), "larger than -1")):
        with pytest.raises(ValueError, match=message):
            layers.RandomWidth(factor)


def test_a_model_for_images_of_one_size_takes_those_of_random_sizes_in_fit():
    images = tf.keras.Input((10, 20, 3))
    inner = tf.keras.Model(images, layers.GlobalAveragePooling2D()(images))
    inputs = tf.keras.Input((10, 20, 3))
    outputs = layers.Dense(1)(inner(layers.RandomHeight((0.5, 0.5))(inputs)))
    model = tf.keras.Model(inputs, outputs)
    model.compile("sgd", "mse")
    losses = model.fit(IMAGES, np.ones((2, 1)), epochs=3, verbose=0).history["loss"]
    assert losses[2] < losses[0]
    assert model.predict(IMAGES, verbose=0).shape == (2, 1)
    with pytest.raises(ValueError, match="incompatible"):
        inner(IMAGES[:, :5])
    with pytest.raises(ValueError, match="incompatible"):
        model(IMAGES[:, :5])
