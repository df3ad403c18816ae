"""Gradients that a program has reduced itself, to clip them, are applied as they are."""

import numpy as np
import pytest

import muster
from muster._keras import keras
from muster.data import Dataset
from muster.distribute import MirroredStrategy, OneDeviceStrategy, get_replica_context
from muster.estimator import Estimator, EstimatorSpec, RunConfig
from muster.program import replica_weight

STRATEGIES = {
    "one device": lambda: OneDeviceStrategy("/cpu:0"),
    "mirrored 2": lambda: MirroredStrategy(["/cpu:0", "/cpu:1"]),
}
ARGUMENTS = [{"skip_gradients_aggregation": True}, {"experimental_aggregate_gradients": False}]
OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.5),
    "adam": lambda: keras.optimizers.Adam(0.5),
    "scaled": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.5), initial_scale=1.0),
}
# The gradient of mean(w * x) over all 8 rows, clipped to the norm 1.
X = np.arange(16, dtype=np.float32).reshape(8, 2)
CLIPPED = X.mean(0) / np.linalg.norm(X.mean(0))


def clipped(gradients):
    summed = get_replica_context().all_reduce("sum", gradients)
    norm = keras.ops.sqrt(sum(keras.ops.sum(keras.ops.square(each)) for each in summed))
    return [each / keras.ops.maximum(norm, 1.0) for each in summed]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("arguments", ARGUMENTS, ids=lambda arguments: next(iter(arguments)))
def test_clipping_after_the_sum(strategy, optimizer, arguments):
    strategy = STRATEGIES[strategy]()
    with strategy.scope():
        weights, trained = keras.Variable(np.zeros(2, np.float32)), OPTIMIZERS[optimizer]()

    def step(x):
        with muster.GradientTape() as tape:
            loss = keras.ops.sum(x @ weights) / 8
        pairs = zip(clipped(tape.gradient(loss, [weights])), [weights], strict=True)
        trained.apply_gradients(pairs, **arguments)

    batches = strategy.experimental_distribute_dataset(Dataset.from_tensor_slices(X).batch(8))
    for batch in batches:
        strategy.run(step, (batch,))
    expected = -0.5 * (np.ones(2) if optimizer == "adam" else CLIPPED)
    np.testing.assert_allclose(weights.value, expected, rtol=1e-4)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("rows", [8, 7])
@pytest.mark.parametrize("kind", ["built in", "own"])
def test_gradients_by_hand_in_a_model_fn_are_those_of_the_mean_loss(strategy, rows, kind, tmp_path):
    class Own(keras.optimizers.Optimizer):
        def update_step(self, gradient, variable, learning_rate):
            variable.assign_sub(learning_rate * gradient)

    def model_fn(features, labels, mode):
        weights = keras.Variable(np.zeros(2, np.float32), name="w")
        optimizer = (keras.optimizers.SGD if kind == "built in" else Own)(0.5)
        loss = keras.ops.mean(features @ weights)
        gradients = muster.gradients(loss * replica_weight(), [weights])
        step = muster.get_or_create_global_step()
        train_op = muster.apply_gradients(optimizer, zip(gradients, [weights], strict=True), step)
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = Estimator(model_fn, tmp_path, RunConfig(train_distribute=STRATEGIES[strategy]()))
    estimator.train(lambda: Dataset.from_tensor_slices(X[:rows]).batch(8), steps=1)
    np.testing.assert_allclose(estimator.get_variable_value("w"), -0.5 * X[:rows].mean(0), rtol=1e-5)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_clipping_after_the_sum_in_a_model_fn(strategy, tmp_path):
    def model_fn(features, labels, mode):
        weights = keras.Variable(np.zeros(2, np.float32), name="w")
        loss = keras.ops.sum(features @ weights) / 8
        pairs = zip(clipped(muster.gradients(loss, [weights])), [weights], strict=True)
        step = muster.get_or_create_global_step()
        train_op = muster.apply_gradients(
            keras.optimizers.SGD(0.5), pairs, step, skip_gradients_aggregation=True
        )
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = Estimator(model_fn, tmp_path, RunConfig(train_distribute=STRATEGIES[strategy]()))
    estimator.train(lambda: Dataset.from_tensor_slices(X).batch(8), steps=1)
    np.testing.assert_allclose(estimator.get_variable_value("w"), -0.5 * CLIPPED, rtol=1e-4)
