"""``tf.Module`` finds its variables and modules."""

import numpy as np
import pytest

import muster_tensorflow as tf


class Dense(tf.Module):
    def __init__(self, wide, deep, name=None):
        super().__init__(name=name)
        self.w = tf.Variable(np.ones((wide, deep), np.float32), name="w")
        self.b = tf.Variable(np.zeros(deep, np.float32), name="b")
        self.count = tf.Variable(0, trainable=False)

    @tf.Module.with_name_scope
    def __call__(self, x):
        return tf.nn.relu(x @ self.w + self.b)


class TwoLayers(tf.Module):
    def __init__(self):
        super().__init__()
        self.layers = [Dense(3, 4), Dense(4, 2, name="last")]
        self.named = {"keras": tf.keras.layers.Dense(1)}
        self.again = self.layers[0]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.named["keras"](x)


def test_variables_and_modules_are_found_once():
    model = TwoLayers()
    model(np.ones((2, 3), np.float32))
    assert len(model.variables) == 8
    assert len(model.trainable_variables) == 6
    assert len(model.non_trainable_variables) == 2
    assert model.submodules == (model.again, model.layers[1], model.named["keras"])
    assert (model.name, model.layers[0].name, model.layers[1].name) == ("two_layers", "dense", "last")
    with pytest.raises(ValueError, match="valid Python identifier"):
        Dense(1, 1, name="a b")


def test_a_module_is_trained():
    model = TwoLayers()
    x, y = np.ones((4, 3), np.float32), np.full((4, 1), 3.0, np.float32)
    model(x)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y))
        gradients = tape.gradient(loss, model.trainable_variables)
        for variable, each in zip(model.trainable_variables, gradients, strict=True):
            variable.assign_sub(0.001 * each)
        return loss

    losses = [float(step()) for _ in range(30)]
    assert losses[-1] < losses[0] / 2


def test_layers_and_models_are_modules():
    assert issubclass(tf.keras.Model, tf.Module)
    assert isinstance(tf.keras.layers.Dense(1), tf.Module)
    assert not isinstance(tf.keras.layers.Dense(1), Dense)
    assert not isinstance(tf.Variable(1.0), tf.Module)
