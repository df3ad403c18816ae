"""Layers that update metrics of theirs when they are called, which Keras on JAX leaves behind."""

import keras
import numpy as np
import pytest

from muster.distribute import MirroredStrategy

X = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
Y = X[:, :1]


class Endpoint(keras.layers.Layer):
    """Adds its loss, and shows how often the sign is right."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.signs = keras.metrics.Mean(name="signs")

    def call(self, outputs, targets):
        self.add_loss(keras.ops.mean((outputs - targets) ** 2))
        self.signs.update_state(keras.ops.cast(outputs * targets > 0, "float32"))
        return outputs


def endpoint_model():
    keras.utils.set_random_seed(1)
    inputs, targets = keras.Input((4,), name="x"), keras.Input((1,), name="targets")
    outputs = Endpoint()(keras.layers.Dense(1)(inputs), targets)
    model = keras.Model({"x": inputs, "targets": targets}, outputs)
    model.compile(keras.optimizers.SGD(0.1))
    return model


@pytest.mark.parametrize("devices", [0, 2])
def test_fit_and_evaluate_show_them(devices):
    if devices:
        with MirroredStrategy([f"cpu:{i}" for i in range(devices)]).scope():
            model = endpoint_model()
    else:
        model = endpoint_model()
    data = {"x": X, "targets": Y}
    history = model.fit(data, epochs=20, batch_size=8, verbose=0).history
    assert history["loss"][-1] < 0.1 * history["loss"][0]
    right = np.mean(model.predict(data, verbose=0) * Y > 0)
    assert right > 0.9
    results = model.evaluate(data, batch_size=8, verbose=0, return_dict=True)
    assert results["signs"] == pytest.approx(right)
    assert history["signs"][0] < history["signs"][-1]
