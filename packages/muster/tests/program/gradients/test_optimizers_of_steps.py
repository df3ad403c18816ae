"""Optimizers that were built outside of a model_fn, and the global step as their counter."""

import numpy as np
import pytest

import muster
from muster import optimizers
from muster._keras import keras
from muster.data import Dataset
from muster.distribute import MirroredStrategy
from muster.estimator import Estimator, EstimatorSpec, RunConfig
from muster.program.variables import VariableShard

X = np.linspace(-1, 1, 32, dtype="float32").reshape(16, 2)
Y = X @ np.array([[1.0], [-2.0]], "float32")
OPTIMIZERS = {
    "SGD": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "Adam": lambda: keras.optimizers.Adam(0.05, name="mine"),
    "schedule": lambda: keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=8.0),
    "legacy": lambda: optimizers.Adam(0.05),
}


def batches():
    return Dataset.from_tensor_slices((X, Y)).batch(8).repeat()


def by_gradients(optimizer, loss, variables):
    slopes = muster.gradients(optimizer.scale_loss(loss), variables)
    pairs = zip(slopes, variables, strict=True)
    return muster.apply_gradients(optimizer, pairs, muster.get_or_create_global_step())


def by_muster(optimizer, loss, variables):
    return muster.minimize(optimizer, loss, muster.get_or_create_global_step(), variables)


def trained(folder, optimizer_of, train=by_muster, strategy=None, calls=(4,)):
    def model_fn(features, labels, mode):
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, kernel_initializer="zeros")])
        loss = keras.ops.mean((model(features) - labels) ** 2)
        train_op = train(optimizer_of(), loss, model.trainable_variables) if mode == "train" else None
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    config = RunConfig(train_distribute=strategy)
    estimator = Estimator(model_fn, str(folder), config=config)
    for steps in calls:
        estimator.train(batches, steps=steps)
    return {name: np.asarray(estimator.get_variable_value(name)) for name in estimator.get_variable_names()}


def assert_same(a, b):
    assert a.keys() == b.keys()
    for name, value in a.items():
        np.testing.assert_allclose(value, b[name], rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.samples("scaled", "schedule", "SGD")
@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_one_built_outside_trains_as_one_built_inside(make, tmp_path):
    before = [np.asarray(variable) for variable in make().variables]
    outside = make()
    inside = trained(tmp_path / "inside", make)
    assert_same(trained(tmp_path / "outside", lambda: outside), inside)
    assert inside["global_step"] == 4
    assert np.abs(inside["sequential/dense/kernel"]).sum() > 0
    for variable, value in zip(outside.variables, before, strict=True):
        np.testing.assert_array_equal(variable, value)


@pytest.mark.samples("devices1-by_muster", "None-by_gradients")
@pytest.mark.parametrize("train", [by_gradients, by_muster])
@pytest.mark.parametrize("devices", [None, ["cpu:0", "cpu:1"]])
def test_training_goes_on_from_its_checkpoint(train, devices, tmp_path):
    strategy = devices and MirroredStrategy(devices)
    outside = keras.optimizers.SGD(0.1, momentum=0.9)
    whole = trained(tmp_path / "whole", lambda: outside, train, strategy, calls=(4,))
    parts = trained(tmp_path / "parts", lambda: outside, train, strategy, calls=(2, 2))
    assert_same(whole, parts)
    assert whole["sgd/iteration"] == whole["global_step"] == 4
    assert len(outside.variables) == 2


@pytest.mark.parametrize("make", [OPTIMIZERS["SGD"], OPTIMIZERS["scaled"]], ids=["SGD", "scaled"])
def test_gradients_that_are_asked_for_train_as_minimize_does(make, tmp_path):
    assert_same(trained(tmp_path / "asked", make, by_gradients), trained(tmp_path / "given", make))


def test_the_rate_is_that_of_the_time_of_training(tmp_path):
    outside = keras.optimizers.SGD(0.1)
    seen = []

    def optimizer():
        seen.append((outside.learning_rate.path, outside.iterations.path))
        return outside

    first = trained(tmp_path / "first", optimizer)
    outside.learning_rate = 0.01
    second = trained(tmp_path / "second", optimizer)
    assert_same(second, trained(tmp_path / "inside", lambda: keras.optimizers.SGD(0.01)))
    assert second["sgd/learning_rate"] != first["sgd/learning_rate"]
    assert set(seen) == {("sgd/learning_rate", "sgd/iteration")}


def test_two_of_a_kind_keep_their_variables_apart(tmp_path):
    pair = [keras.optimizers.SGD(rate, momentum=0.9) for rate in (0.1, 0.2)]

    def train(optimizers, loss, variables):
        ops = [muster.minimize(each, loss, None, [v]) for each, v in zip(optimizers, variables, strict=True)]
        muster.get_or_create_global_step().assign_add(1)
        return ops[0]

    found = trained(tmp_path, lambda: pair, train)
    assert found["sgd/learning_rate"] == np.float32(0.1)
    assert found["sgd_1/learning_rate"] == np.float32(0.2)


class Uncopied(keras.optimizers.SGD):
    def get_config(self):
        raise NotImplementedError("no configuration")


def test_one_that_cannot_be_copied_says_so(tmp_path):
    outside = Uncopied(0.1)
    with pytest.raises(ValueError, match=r"cannot be copied from its configuration.*no configuration"):
        trained(tmp_path, lambda: outside)


def test_a_function_uses_the_optimizer_itself():
    optimizer = keras.optimizers.SGD(0.5)
    variable = keras.Variable(1.0)

    @muster.function
    def step():
        optimizer.apply_gradients([(2.0 * variable.value, variable)])
        return optimizer.learning_rate * 1

    assert float(step()) == 0.5
    assert float(variable.value) == 0.0
    assert int(optimizer.iterations) == 1


def test_the_shards_of_a_variable_are_trained_as_one():
    whole, alike = (keras.Variable(np.ones((5, 2), "float32")) for _ in range(2))
    parts = [VariableShard(whole, None, n, *rows, place=n) for n, rows in enumerate([(0, 3), (3, 5)])]
    grads = np.arange(10, dtype="float32").reshape(5, 2)
    keras.optimizers.Adam(0.1).apply([grads[:3], grads[3:]], parts)
    keras.optimizers.Adam(0.1).apply([grads], [alike])
    np.testing.assert_array_equal(whole, alike)
