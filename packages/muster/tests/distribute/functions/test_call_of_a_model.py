"""A model whose ``call`` is a function: Keras traces it to build the model."""

import keras
import numpy as np
import pytest

from muster.distribute import MirroredStrategy, function

X = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)
Y = X[:, :1]


class OfFunction(keras.Model):
    def __init__(self):
        super().__init__()
        self.cell, self.dense = keras.layers.LSTMCell(3), keras.layers.Dense(1)

    @function
    def call(self, x):
        outputs, _ = self.cell(x, self.cell.get_initial_state(batch_size=x.shape[0]))
        return self.dense(outputs)


def test_its_first_call_builds_it():
    model = OfFunction()
    assert model(X).shape == (16, 1)
    assert len(model.trainable_variables) == 5
    np.testing.assert_allclose(model(X), model.predict(X, verbose=0), rtol=1e-5)
    keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])(X)  # what is built later is not in the way


@pytest.mark.parametrize("devices", [0, 2])
def test_it_trains(devices):
    if devices:
        with MirroredStrategy([f"cpu:{i}" for i in range(devices)]).scope():
            model = OfFunction()
            model.compile(keras.optimizers.Adam(0.05), "mse")
    else:
        model = OfFunction()
        model.compile(keras.optimizers.Adam(0.05), "mse")
    losses = model.fit(X, Y, batch_size=8, epochs=10, verbose=0).history["loss"]
    assert losses[-1] < losses[0] / 2, losses
