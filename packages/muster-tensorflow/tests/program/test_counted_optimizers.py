"""Optimizers whose ``iterations`` a model_fn sets to the global step."""

import numpy as np
import pytest

import muster
import muster_tensorflow as tf
from muster._keras import keras

X = np.linspace(-1, 1, 32, dtype="float32").reshape(16, 2)
Y = X @ np.array([[1.0], [-2.0]], "float32")
OPTIMIZERS = {
    "SGD": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=8.0),
}


def batches():
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(8).repeat()


def by_iterations(optimizer, loss, variables):
    optimizer.iterations = tf.compat.v1.train.get_or_create_global_step()
    return optimizer.minimize(loss, variables)


def by_gradients(optimizer, loss, variables):
    optimizer.iterations = tf.compat.v1.train.get_or_create_global_step()
    loss = optimizer.scale_loss(loss)
    return optimizer.apply_gradients(zip(tf.gradients(loss, variables), variables, strict=True))


def by_muster(optimizer, loss, variables):
    return muster.minimize(optimizer, loss, muster.get_or_create_global_step(), variables)


def trained(folder, optimizer_of, train=by_muster, strategy=None, calls=(4,)):
    def model_fn(features, labels, mode):
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, kernel_initializer="zeros")])
        loss = keras.ops.mean((model(features) - labels) ** 2)
        train_op = train(optimizer_of(), loss, model.trainable_variables) if mode == "train" else None
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    config = tf.estimator.RunConfig(train_distribute=strategy)
    estimator = tf.estimator.Estimator(model_fn, str(folder), config=config)
    for steps in calls:
        estimator.train(batches, steps=steps)
    return {name: np.asarray(estimator.get_variable_value(name)) for name in estimator.get_variable_names()}


def assert_same(a, b):
    assert a.keys() == b.keys()
    for name, value in a.items():
        np.testing.assert_allclose(value, b[name], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("train", [by_iterations, by_gradients])
@pytest.mark.parametrize("devices", [None, ["cpu:0", "cpu:1"]])
def test_training_goes_on_from_its_checkpoint(train, devices, tmp_path):
    strategy = devices and tf.distribute.MirroredStrategy(devices)
    outside = keras.optimizers.SGD(0.1, momentum=0.9)
    whole = trained(tmp_path / "whole", lambda: outside, train, strategy, calls=(4,))
    parts = trained(tmp_path / "parts", lambda: outside, train, strategy, calls=(2, 2))
    assert_same(whole, parts)
    assert whole["sgd/iteration"] == whole["global_step"] == 4
    assert len(outside.variables) == 2


@pytest.mark.parametrize("train", [by_iterations, by_gradients])
@pytest.mark.parametrize("make", [OPTIMIZERS["SGD"], OPTIMIZERS["scaled"]], ids=["SGD", "scaled"])
def test_the_global_step_counts_the_updates_of_one_built_inside(train, make, tmp_path):
    assert_same(trained(tmp_path / "set", make, train), trained(tmp_path / "given", make))


def test_only_a_variable_counts(tmp_path):
    def train(optimizer, loss, variables):
        optimizer.iterations = 3

    with pytest.raises(TypeError, match="Only a variable counts the updates of an optimizer, got 3"):
        trained(tmp_path, lambda: keras.optimizers.SGD(0.1), train)
    with pytest.raises(muster.TraceError, match="outside of a step"):
        keras.optimizers.SGD(0.1).iterations = keras.Variable(0)
