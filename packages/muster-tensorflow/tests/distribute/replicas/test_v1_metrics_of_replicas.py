"""Metrics of ``tf.compat.v1.metrics``, of which replicas each see some examples, count each of them once."""

import numpy as np
import pytest

import muster_tensorflow as tf

LABELS = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1], np.int32)
GUESSES = np.array([0, 1, 0, 0, 1, 1, 0, 1, 0], np.int32)


def model_fn(features, labels, mode):
    weight = tf.Variable(1.0, name="weight")
    metrics = {
        "accuracy": tf.compat.v1.metrics.accuracy(labels, features),
        "mean": tf.compat.v1.metrics.mean(tf.cast(labels, tf.float32)),
    }
    loss = tf.reduce_mean(weight * tf.cast(features, tf.float32))
    train_op = tf.compat.v1.train.GradientDescentOptimizer(0.0).minimize(
        loss, tf.compat.v1.train.get_or_create_global_step()
    )
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def test_they_count_each_example_once(tmp_path):
    def input_fn():
        return tf.data.Dataset.from_tensor_slices((GUESSES, LABELS)).batch(2)  # the last one has one example

    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    config = tf.estimator.RunConfig(train_distribute=strategy, eval_distribute=strategy)
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path), config)
    estimator.train(input_fn, steps=1)
    found = estimator.evaluate(input_fn)
    assert found["accuracy"] == pytest.approx((LABELS == GUESSES).mean())
    assert found["mean"] == pytest.approx(LABELS.mean())
