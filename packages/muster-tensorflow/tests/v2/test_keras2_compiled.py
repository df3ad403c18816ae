"""``compiled_loss`` and ``compiled_metrics`` in a train_step: the same numbers as Keras' own step."""

import numpy as np
import pytest

import muster_tensorflow as tf
from muster._keras import keras

ROWS = np.random.default_rng(0)
X = ROWS.normal(size=(40, 4)).astype(np.float32)
Y, Z = X[:, :1], X[:, 1:3]
WEIGHTS = np.linspace(0.5, 2, 40, dtype=np.float32)


class Compiled(keras.Model):
    def train_step(self, data):
        x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compiled_loss(y, y_pred, sample_weight=weights, regularization_losses=self.losses)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.compiled_metrics.update_state(y, y_pred, weights)
        return {metric.name: metric.result() for metric in self.metrics}

    def test_step(self, data):
        x, y, weights = keras.utils.unpack_x_y_sample_weight(data)
        y_pred = self(x, training=False)
        self.compiled_loss(y, y_pred, weights, self.losses)
        self.compiled_metrics.update_state(y, y_pred, weights)
        return {metric.name: metric.result() for metric in self.metrics}


def one_output(kind):
    keras.utils.set_random_seed(1)
    inputs = keras.Input((4,))
    model = kind(inputs, keras.layers.Dense(1, kernel_regularizer="l2")(inputs))
    model.compile("sgd", "mse", metrics=["mae"])
    return model


def two_outputs(kind):
    keras.utils.set_random_seed(1)
    inputs = keras.Input((4,))
    outputs = [keras.layers.Dense(1, name="a")(inputs), keras.layers.Dense(2, name="b")(inputs)]
    model = kind(inputs, outputs)
    model.compile("sgd", ["mse", "mae"], loss_weights=[1, 0.5])
    return model


def history(model, y, weights):
    options = {"batch_size": 8, "epochs": 3, "verbose": 0, "shuffle": False, "sample_weight": weights}
    return model.fit(X, y, validation_data=(X, y), **options).history


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize(("build", "y"), [(one_output, Y), (two_outputs, [Y, Z])])
def test_it_is_the_loss_that_keras_step_has(build, y, devices, weights):
    strategy = tf.distribute.MirroredStrategy([f"cpu:{i}" for i in range(devices)])
    with strategy.scope():
        got = history(build(Compiled), y, weights)
    expected = history(build(keras.Model), y, weights)
    assert got.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(got[name], values, rtol=1e-5, err_msg=name)


def test_metrics_are_found_and_reset():
    model = one_output(Compiled)
    history(model, Y, None)
    assert [metric.name for metric in model.compiled_loss.metrics] == ["loss"]
    assert [metric.name for metric in model.compiled_metrics.metrics] == ["mae"]
    loss = model.compiled_loss(Y, model(X), regularization_losses=model.losses)
    assert loss > 0
    model.compiled_metrics.update_state(Y, model(X))
    for compiled in (model.compiled_loss, model.compiled_metrics):
        assert compiled.metrics[0].result() > 0
        compiled.reset_state()
        assert compiled.metrics[0].result() == 0


def test_a_model_has_its_metrics_among_those_that_it_was_compiled_with():
    class Listing(keras.Model):
        @property
        def metrics(self):
            return [self.mean, *self.compiled_metrics.metrics]

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self(x) - y) ** 2)
            self.optimizer.minimize(loss, self.trainable_variables, tape=tape)
            self.compiled_metrics.update_state(y, self(x))
            self.mean.update_state(loss)
            return {metric.name: metric.result() for metric in self.metrics}

    inputs = keras.Input((4,))
    model = Listing(inputs, keras.layers.Dense(1)(inputs))
    model.mean = keras.metrics.Mean(name="mean")
    model.compile("sgd", metrics=["mae"])
    assert model.compiled_metrics.metrics == []  # as in Keras 2, before there was a batch
    assert sorted(model.fit(X, Y, epochs=2, verbose=0).history) == ["mae", "mean"]


def test_a_model_without_a_loss_has_those_given():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd")
    assert model.compiled_loss(Y, model(X)) is None
    assert model.compiled_loss(Y, model(X), regularization_losses=[2.0, 3.0]) == 5
    model.compiled_metrics.update_state(Y, model(X))
    assert model.compiled_metrics.metrics == []


def test_a_model_may_have_a_loss_of_its_own_by_this_name():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compiled_loss = own = keras.losses.MeanSquaredError()
    assert model.compiled_loss is own
