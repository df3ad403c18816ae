"""Layers that assign to trainable weights of theirs when they are called, which Keras on JAX forgets."""

import keras
import numpy as np
import pytest

from muster.distribute import MirroredStrategy

ONES = np.ones((4, 3), np.float32)
ZEROS = np.zeros((4, 3), np.float32)
# What TensorFlow 2.15 has after a step of 0.1 on the mean of squares: the mask stays, the others learn.
LEARNED = [1 - 0.2 / 3, 0, 1 - 0.2 / 3]


class Masked(keras.layers.Layer):
    """Multiplies by weights, of which a mask has made some 0."""

    def build(self, shape):
        self.scale = self.add_weight(shape=(3,), initializer="ones")

    def call(self, inputs):
        self.scale.assign(self.scale * np.array([1, 0, 1], np.float32))
        return inputs * self.scale


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.masked = Masked()

    def call(self, inputs):
        return self.masked(inputs)


def functional():
    inputs = keras.Input((3,))
    return keras.Model(inputs, Masked()(inputs))


@pytest.mark.samples(
    "fit-2-functional",
    "train_on_batch-2-Subclassed",
    "evaluate and predict-2-<lambda>",
    "fit-0-Subclassed",
    "evaluate-0-functional",
    "train_on_batch-0-<lambda>",
)
@pytest.mark.parametrize("make", [functional, Subclassed, lambda: keras.Sequential([Masked()])])
@pytest.mark.parametrize("devices", [0, 2])
@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (lambda model: model.fit(ONES, ZEROS, verbose=0), LEARNED),
        (lambda model: model.train_on_batch(ONES, ZEROS), LEARNED),
        (lambda model: model.evaluate(ONES, ZEROS, verbose=0), [1, 0, 1]),
        (lambda model: (model.evaluate(ONES, ZEROS, verbose=0), model.predict(ONES, verbose=0)), [1, 0, 1]),
    ],
    ids=["fit", "train_on_batch", "evaluate", "evaluate and predict"],
)
def test_they_stay(make, devices, run, expected):
    if devices:
        with MirroredStrategy([f"cpu:{i}" for i in range(devices)]).scope():
            model = make()
            model.compile(keras.optimizers.SGD(0.1), "mse")
    else:
        model = make()
        model.compile(keras.optimizers.SGD(0.1), "mse")
    run(model)
    np.testing.assert_allclose(model.get_weights()[0], expected, rtol=1e-6)


def test_spectral_normalization_keeps_its_kernel():
    layer = keras.layers.SpectralNormalization(keras.layers.Dense(3, use_bias=False), power_iterations=50)
    model = keras.Sequential([keras.Input((3,)), layer])
    model.compile(keras.optimizers.SGD(0.0), "mse")
    model.fit(ONES, ZEROS, verbose=0)
    assert np.linalg.svd(layer.layer.kernel)[1][0] == pytest.approx(1, rel=1e-3)
