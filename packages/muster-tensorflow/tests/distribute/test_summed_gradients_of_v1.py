"""Gradients that a model_fn computes by TensorFlow 1's optimizers, and that it has reduced itself."""

import numpy as np
import pytest

import muster_tensorflow as tf
from muster._keras import keras
from muster.distribute import MirroredStrategy, OneDeviceStrategy, get_replica_context
from muster.estimator import Estimator, EstimatorSpec, RunConfig

STRATEGIES = {
    "one device": lambda: OneDeviceStrategy("/cpu:0"),
    "mirrored 2": lambda: MirroredStrategy(["/cpu:0", "/cpu:1"]),
}
# The gradient of mean(w * x) over all 8 rows, clipped to the norm 1.
X = np.arange(16, dtype=np.float32).reshape(8, 2)
CLIPPED = X.mean(0) / np.linalg.norm(X.mean(0))


def clipped(gradients):
    summed = get_replica_context().all_reduce("sum", gradients)
    return tf.clip_by_global_norm(summed, 1.0)[0]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_clipping_after_the_sum(strategy):
    strategy = STRATEGIES[strategy]()
    with strategy.scope():
        weights, trained = keras.Variable(np.zeros(2, np.float32)), keras.optimizers.SGD(0.5)

    def step(x):
        with tf.GradientTape() as tape:
            loss = keras.ops.sum(x @ weights) / 8
        pairs = zip(clipped(tape.gradient(loss, [weights])), [weights], strict=True)
        trained.apply_gradients(pairs, experimental_aggregate_gradients=False)

    batches = strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensor_slices(X).batch(8))
    for batch in batches:
        strategy.run(step, (batch,))
    np.testing.assert_allclose(weights.value, -0.5 * CLIPPED, rtol=1e-4)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("rows", [8, 7])
@pytest.mark.parametrize("kind", ["built in", "own"])
def test_gradients_by_hand_in_a_model_fn_are_those_of_the_mean_loss(strategy, rows, kind, tmp_path):
    class Own(tf.compat.v1.train.Optimizer):
        def _apply_dense(self, gradient, variable):
            return variable.assign_sub(0.5 * gradient)

    def model_fn(features, labels, mode):
        weights = keras.Variable(np.zeros(2, np.float32), name="w")
        built_in = tf.compat.v1.train.GradientDescentOptimizer(0.5)
        optimizer = built_in if kind == "built in" else Own(False, "Own")
        loss = keras.ops.mean(features @ weights)
        step = tf.compat.v1.train.get_global_step()
        train_op = optimizer.apply_gradients(optimizer.compute_gradients(loss), step)
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = Estimator(model_fn, tmp_path, RunConfig(train_distribute=STRATEGIES[strategy]()))
    estimator.train(lambda: tf.data.Dataset.from_tensor_slices(X[:rows]).batch(8), steps=1)
    np.testing.assert_allclose(estimator.get_variable_value("w"), -0.5 * X[:rows].mean(0), rtol=1e-5)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_clipping_after_the_sum_in_a_model_fn(strategy, tmp_path):
    def model_fn(features, labels, mode):
        weights = keras.Variable(np.zeros(2, np.float32), name="w")
        loss = keras.ops.sum(features @ weights) / 8
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.5)
        pairs = zip(
            clipped([gradient for gradient, _ in optimizer.compute_gradients(loss)]), [weights], strict=True
        )
        step = tf.compat.v1.train.get_global_step()
        train_op = optimizer.apply_gradients(pairs, step, skip_gradients_aggregation=True)
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = Estimator(model_fn, tmp_path, RunConfig(train_distribute=STRATEGIES[strategy]()))
    estimator.train(lambda: tf.data.Dataset.from_tensor_slices(X).batch(8), steps=1)
    np.testing.assert_allclose(estimator.get_variable_value("w"), -0.5 * CLIPPED, rtol=1e-4)
