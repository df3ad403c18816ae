"""The moving averages of TensorFlow 1's batch normalization move if the program runs ``UPDATE_OPS``."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow.compat.v1 as tf
from muster.distribute import MirroredStrategy
from muster.estimator import Estimator, RunConfig

X = np.random.default_rng(0).normal(3, 2, (64, 4)).astype(np.float32)
Y = X.sum(1, keepdims=True)
STEPS = 5
MOVED = X.mean(0) * (1 - 0.5**STEPS)
TOLD = "The step leaves out 2 updates of moving averages"


def train(minimize: Any, loss: Any) -> Any:
    return minimize(loss, tf.train.get_or_create_global_step())


def within(minimize: Any, loss: Any) -> Any:
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        return train(minimize, loss)


def grouped(minimize: Any, loss: Any) -> Any:
    return tf.group(train(minimize, loss), *tf.get_collection(tf.GraphKeys.UPDATE_OPS))


def grouped_as_list(minimize: Any, loss: Any) -> Any:
    return tf.group([train(minimize, loss), tf.get_collection(tf.GraphKeys.UPDATE_OPS)])


def in_two_ways(minimize: Any, loss: Any) -> Any:
    return tf.group(within(minimize, loss), *tf.get_collection(tf.GraphKeys.UPDATE_OPS))


def of_scope(minimize: Any, loss: Any) -> Any:
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS, scope="norm")):
        return train(minimize, loss)


def looked_at(minimize: Any, loss: Any) -> Any:
    names = [each.name for each in tf.get_collection(tf.GraphKeys.UPDATE_OPS)]
    # None in evaluations.
    assert names in ([], [f"norm/moving_{of}/AssignMovingAvg" for of in ("mean", "variance")])
    return train(minimize, loss)


def of_other_scope(minimize: Any, loss: Any) -> Any:
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS, scope="discriminator")):
        return train(minimize, loss)


def estimator_of(train_op_of: Any, folder: Path, layer: Any = None, **config: Any) -> Estimator:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        training = mode == tf.estimator.ModeKeys.TRAIN
        if layer is None:
            normal = tf.layers.batch_normalization(features, momentum=0.5, training=training, name="norm")
        else:
            normal = layer(momentum=0.5, name="norm")(features, training=training)
        loss = tf.losses.mean_squared_error(labels, tf.layers.dense(normal, 1))
        minimize = tf.train.GradientDescentOptimizer(0.01).minimize
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op_of(minimize, loss))

    return Estimator(model_fn, folder, RunConfig(**config))


def input_fn() -> Any:
    return tf.data.Dataset.from_tensors((X, Y)).repeat(STEPS)


def mean_after_training(estimator: Estimator) -> Any:
    estimator.train(input_fn)
    return estimator.get_variable_value("norm/moving_mean")


@pytest.mark.parametrize("layer", [None, tf.layers.BatchNormalization])
@pytest.mark.parametrize("train_op_of", [within, grouped, grouped_as_list, in_two_ways, of_scope])
def test_averages_move_if_the_program_runs_the_updates(
    train_op_of: Any, layer: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = mean_after_training(estimator_of(train_op_of, tmp_path, layer))
    np.testing.assert_allclose(found, MOVED, rtol=1e-5)
    assert TOLD not in caplog.text


@pytest.mark.parametrize("layer", [None, tf.layers.BatchNormalization])
@pytest.mark.parametrize("train_op_of", [train, looked_at, of_other_scope])
def test_averages_stay_if_it_does_not(
    train_op_of: Any, layer: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    estimator = estimator_of(train_op_of, tmp_path, layer)
    with caplog.at_level(logging.WARNING):
        assert mean_after_training(estimator).tolist() == [0, 0, 0, 0]
        estimator.evaluate(input_fn)
    told = [each for each in caplog.messages if TOLD in each]
    assert len(told) == 1
    assert "norm/moving_mean" in told[0]
    assert "tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS))" in told[0]


def test_replicas_move_averages_together(tmp_path: Path) -> None:
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    found = mean_after_training(estimator_of(within, tmp_path / "moved", train_distribute=strategy))
    steps = -(-STEPS // 2)  # each takes two batches
    np.testing.assert_allclose(found, X.mean(0) * (1 - 0.5**steps), rtol=1e-5)
    stays = estimator_of(train, tmp_path / "stays", train_distribute=strategy)
    assert mean_after_training(stays).tolist() == [0, 0, 0, 0]


def test_heads_run_the_updates(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        training = mode == tf.estimator.ModeKeys.TRAIN
        normal = tf.layers.batch_normalization(features, momentum=0.5, training=training, name="norm")
        return tf.estimator.RegressionHead().create_estimator_spec(
            {}, mode, tf.layers.dense(normal, 1), labels, optimizer=tf.keras.optimizers.SGD(0.01)
        )

    np.testing.assert_allclose(mean_after_training(Estimator(model_fn, tmp_path)), MOVED, rtol=1e-5)


def test_keras_layers_move_their_averages_themselves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = mean_after_training(estimator_of(train, tmp_path, tf.keras.layers.BatchNormalization))
    np.testing.assert_allclose(found, MOVED, rtol=1e-5)
    assert TOLD not in caplog.text


def test_functions_run_the_updates_at_once() -> None:
    layer = tf.layers.BatchNormalization(momentum=0.5)

    @tf.function
    def step(x: Any) -> Any:
        return layer(x, training=True)

    step(X)
    np.testing.assert_allclose(np.asarray(layer.moving_mean.value), X.mean(0) / 2, rtol=1e-5)
    layer(X, training=True)
    np.testing.assert_allclose(np.asarray(layer.moving_mean.value), X.mean(0) * 0.75, rtol=1e-5)
    assert tf.get_collection(tf.GraphKeys.UPDATE_OPS) == []


CONTRIB = tf.contrib.layers


def optimize_loss(loss: Any, **options: Any) -> Any:
    return CONTRIB.optimize_loss(loss, None, 0.01, "SGD", **options)


def create_train_op(loss: Any, **options: Any) -> Any:
    return tf.contrib.training.create_train_op(loss, tf.train.GradientDescentOptimizer(0.01), **options)


def minimize(loss: Any) -> Any:
    return train(tf.train.GradientDescentOptimizer(0.01).minimize, loss)


def of_contrib(train_op_of: Any, folder: Path, **options: Any) -> Estimator:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        training = mode == tf.estimator.ModeKeys.TRAIN
        normal = CONTRIB.batch_norm(features, 0.5, is_training=training, scope="norm", **options)
        loss = tf.losses.mean_squared_error(labels, tf.layers.dense(normal, 1))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op_of(loss))

    return Estimator(model_fn, folder)


@pytest.mark.parametrize("train_op_of", [optimize_loss, create_train_op])
def test_steps_of_contrib_run_the_updates(
    train_op_of: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = mean_after_training(of_contrib(train_op_of, tmp_path))
    np.testing.assert_allclose(found, MOVED, rtol=1e-5)
    assert TOLD not in caplog.text


@pytest.mark.parametrize("train_op_of", [optimize_loss, create_train_op])
def test_steps_of_contrib_run_no_others_than_are_named(train_op_of: Any, tmp_path: Path) -> None:
    stays = of_contrib(lambda loss: train_op_of(loss, update_ops=[]), tmp_path)
    assert mean_after_training(stays).tolist() == [0, 0, 0, 0]
    assert stays.get_variable_value("global_step") == STEPS


def test_batch_norm_of_contrib_leaves_updates_to_the_program(tmp_path: Path) -> None:
    assert mean_after_training(of_contrib(minimize, tmp_path)).tolist() == [0, 0, 0, 0]


def test_batch_norm_of_contrib_runs_updates_at_once_that_no_collection_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = mean_after_training(of_contrib(minimize, tmp_path, updates_collections=None))
    np.testing.assert_allclose(found, MOVED, rtol=1e-5)
    assert TOLD not in caplog.text


def test_a_train_op_counts_the_step_it_is_given_and_changes_gradients(tmp_path: Path) -> None:
    def train_op_of(loss: Any) -> Any:
        doubled = lambda pairs: [(2 * gradient, variable) for gradient, variable in pairs]  # noqa: E731
        return create_train_op(loss, transform_grads_fn=doubled)

    once, twice = of_contrib(create_train_op, tmp_path / "once"), of_contrib(train_op_of, tmp_path / "twice")
    biases = []
    for each in (once, twice):
        each.train(input_fn, max_steps=1)
        biases.append(each.get_variable_value("dense/bias"))
    np.testing.assert_allclose(biases[1], 2 * biases[0], rtol=1e-5)
    assert float(biases[0][0]) != 0


@pytest.mark.parametrize("train_op_of", [optimize_loss, create_train_op])
def test_steps_of_contrib_run_updates_that_the_program_collects(train_op_of: Any, tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        loss = tf.losses.mean_squared_error(labels, tf.layers.dense(features, 1, name="dense"))
        averages = tf.train.ExponentialMovingAverage(0.5)
        bias = next(each for each in tf.trainable_variables() if "bias" in each.path)
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, averages.apply([bias]))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op_of(loss))

    estimator = Estimator(model_fn, tmp_path)
    estimator.train(input_fn, max_steps=2)
    first = estimator.get_variable_value("dense/bias/ExponentialMovingAverage")
    assert float(np.abs(first).max()) > 0


def test_a_layer_in_both_of_its_ways_is_exported(tmp_path: Path) -> None:
    """As click models write it: the condition is known, but both ways are in the graph."""

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        kept: Any = {"decay": 0.9, "updates_collections": None, "scope": "norm"}
        moments = tf.contrib.layers.batch_norm(features["x"], is_training=True, reuse=None, **kept)
        moved = tf.contrib.layers.batch_norm(features["x"], is_training=False, reuse=True, **kept)
        made = tf.cond(tf.cast(mode == "train", tf.bool), lambda: moments, lambda: moved)
        if mode == "infer":
            return tf.estimator.EstimatorSpec(mode, predictions={"made": made})
        loss = tf.losses.mean_squared_error(labels, tf.layers.dense(made, 1, name="out"))
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, train_op=tf.train.AdamOptimizer().minimize(loss, tf.train.get_global_step())
        )

    estimator = Estimator(model_fn, tmp_path / "model", RunConfig(tf_random_seed=1))
    estimator.train(lambda: tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).batch(16), steps=4)
    receiver = tf.estimator.export.build_raw_serving_input_receiver_fn({"x": X})
    loaded = tf.saved_model.load(estimator.export_savedmodel(tmp_path / "exported", receiver))
    served = loaded.signatures["serving_default"](x=tf.constant(X[:3]))["made"]
    predicted = list(estimator.predict(lambda: tf.data.Dataset.from_tensor_slices({"x": X[:3]}).batch(3)))
    np.testing.assert_allclose(served, [row["made"] for row in predicted], rtol=1e-5)
