"""``add_metric``, and ``add_loss`` and ``add_metric`` of tensors that a functional model computes."""

import numpy as np
import pytest

import muster_tensorflow as tf
from muster import TraceError
from muster._keras import keras

K = tf.keras.backend
X = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
Y = X[:, :1]
OPTIONS = {"epochs": 3, "batch_size": 8, "verbose": 0, "shuffle": False}


def strategy_of(devices):
    return tf.distribute.MirroredStrategy([f"cpu:{i}" for i in range(devices)])


def autoencoder(**compiled):
    """Its losses and metrics are tensors of the model."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((4,))
    code = keras.layers.Dense(2)(inputs)
    outputs = keras.layers.Dense(4)(code)
    model = keras.Model(inputs, outputs)
    size = K.mean(K.square(code))
    model.add_loss(0.1 * size)
    model.add_loss(K.mean(K.square(inputs - outputs), axis=-1))
    model.add_metric(size, name="size", aggregation="mean")
    model.compile("sgd", **compiled)
    return model


@pytest.mark.parametrize("devices", [0, 1, 2])
def test_a_functional_model_trains_by_losses_of_its_tensors(devices):
    if devices:
        with strategy_of(devices).scope():
            model = autoencoder()
    else:
        model = autoencoder()
    history = model.fit(X, **OPTIONS).history

    class Step(keras.Model):  # the same, written as a step
        def train_step(self, data):
            with tf.GradientTape() as tape:
                code = self.layers[1](data)
                size = K.mean(K.square(code))
                loss = 0.1 * size + K.sum(K.mean(K.square(data - self.layers[2](code)), axis=-1))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            self.loss_mean.update_state(loss)
            self.size_mean.update_state(size)
            return {"loss": self.loss_mean.result(), "size": self.size_mean.result()}

        @property
        def metrics(self):
            return [self.loss_mean, self.size_mean]

    keras.utils.set_random_seed(1)
    inputs = keras.Input((4,))
    code = keras.layers.Dense(2)(inputs)
    expected = Step(inputs, keras.layers.Dense(4)(code))
    expected.loss_mean, expected.size_mean = keras.metrics.Mean("loss"), keras.metrics.Mean("size")
    expected.compile("sgd")
    for name, values in expected.fit(X, **OPTIONS).history.items():
        np.testing.assert_allclose(history[name], values, rtol=1e-5, err_msg=name)


def test_losses_of_tensors_add_to_that_of_compile():
    alone = autoencoder().evaluate(X, verbose=0, return_dict=True)
    both = autoencoder(loss="mse").evaluate(X, np.zeros((40, 4)), verbose=0, return_dict=True)
    outputs = autoencoder().predict(X, verbose=0)
    np.testing.assert_allclose(both["loss"] - alone["loss"], np.mean(outputs**2), rtol=1e-4)
    assert both["size"] == alone["size"]


def test_a_model_with_losses_of_tensors_is_saved_and_trains_on(tmp_path):
    model = autoencoder()
    model.fit(X, **OPTIONS)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(X, verbose=0), model.predict(X, verbose=0))
    expected, found = model.fit(X, **OPTIONS).history, loaded.fit(X, **OPTIONS).history
    assert found.keys() == expected.keys() == {"loss", "size"}
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, rtol=1e-5, err_msg=key)


class Activity(keras.layers.Layer):
    def call(self, inputs):
        self.add_loss(0.01 * tf.reduce_sum(inputs**2))
        self.add_metric(tf.reduce_mean(inputs), name="activity", aggregation="mean")
        return inputs


def with_layer():
    keras.utils.set_random_seed(1)
    inputs = keras.Input((4,))
    model = keras.Model(inputs, keras.layers.Dense(1)(Activity()(inputs)))
    model.compile("sgd", "mse")
    return model


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, inputs):
        self.add_metric(tf.reduce_mean(inputs), name="activity")
        return self.dense(inputs)


@pytest.mark.parametrize("devices", [0, 1, 2])
def test_a_layer_adds_a_metric_in_its_call(devices):
    if devices:
        with strategy_of(devices).scope():
            model = with_layer()
    else:
        model = with_layer()
    history = model.fit(X, Y, **OPTIONS).history
    np.testing.assert_allclose(history["activity"], [X.mean()] * 3, rtol=1e-4)
    results = model.evaluate(X[:8], Y[:8], verbose=0, return_dict=True)
    np.testing.assert_allclose(results["activity"], X[:8].mean(), rtol=1e-4)


def test_a_model_of_ones_own_adds_a_metric_once_it_was_called():
    model = Subclassed()
    model.compile("sgd", "mse")
    with pytest.raises(TraceError, match=r"adds the metric 'activity' in its first call.*model\(x\[:1\]\)"):
        model.fit(X, Y, **OPTIONS)
    model = Subclassed()
    model.compile("sgd", "mse")
    model(X[:1])
    history = model.fit(X, Y, **OPTIONS).history
    np.testing.assert_allclose(history["activity"], [X.mean()] * 3, rtol=1e-4)


def test_bad_arguments_are_told():
    layer = keras.layers.Dense(1)
    with pytest.raises(ValueError, match="needs the name of the result"):
        layer.add_metric(np.float32(1))
    with pytest.raises(ValueError, match="aggregation='mean' alone, got 'sum'"):
        layer.add_metric(np.float32(1), name="a", aggregation="sum")
    with pytest.raises(ValueError, match=r"add_loss takes Keras' tensors for functional models.*is a Dense"):
        layer.add_loss(keras.Input((4,)))


def test_a_layer_adds_the_value_of_its_metric_without_a_name():
    class Endpoint(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.total = keras.metrics.Sum(name="total")

        def call(self, outputs):
            self.add_loss(tf.reduce_mean(outputs))
            self.add_metric(self.total(tf.ones_like(outputs)))
            return outputs

    inputs = keras.Input((4,))
    model = keras.Model(inputs, Endpoint()(keras.layers.Dense(1)(inputs)))
    model.compile("sgd")
    assert model.fit(X, **OPTIONS).history["total"] == [40] * 3


def test_a_loss_of_what_a_lambda_of_a_given_shape_draws():
    layers = tf.keras.layers

    def sampling(args):
        mean, log_variance = args
        noise = K.random_normal(shape=(K.shape(mean)[0], K.int_shape(mean)[1]))
        return mean + K.exp(0.5 * log_variance) * noise

    inputs = tf.keras.Input((4,))
    mean, log_variance = layers.Dense(2)(inputs), layers.Dense(2)(inputs)
    z = layers.Lambda(sampling, output_shape=(2,))([mean, log_variance])
    encoder = tf.keras.Model(inputs, [mean, log_variance, z])
    model = tf.keras.Model(inputs, layers.Dense(4)(encoder(inputs)[2]))
    model.add_loss(tf.reduce_mean(tf.square(inputs - model.outputs[0]) + tf.square(tf.reduce_mean(mean))))
    model.compile("sgd")

    losses = model.fit(np.ones((8, 4), np.float32), epochs=2, verbose=0).history["loss"]

    assert np.isfinite(losses).all()
    assert (encoder.predict(np.ones((2, 4)), verbose=0)[2].std(axis=0) > 0).all()
