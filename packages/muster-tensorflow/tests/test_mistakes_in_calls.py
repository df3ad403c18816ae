"""Mistakes in calls of TensorFlow's names are errors that name them at once, not ones from the depths."""

import numpy as np
import pytest

import muster_tensorflow as tf
from muster.data import Dataset

X, Y = np.ones((8, 3), np.float32), np.arange(8) % 3


def model_fn(features, labels, mode):
    logits = tf.compat.v1.layers.dense(features, 3)
    loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(labels, logits)
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
    train_op = optimizer.minimize(loss, tf.compat.v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def train(inputs):
    tf.estimator.Estimator(model_fn).train(inputs, steps=1)


CASES = {
    "no labels": (
        lambda p: train(lambda: Dataset.from_tensor_slices(X).batch(4)),
        ValueError,
        "Got None .* labels that the input does not give",
    ),
    "no batch": (
        lambda p: train(lambda: Dataset.from_tensor_slices((X, Y))),
        tf.errors.OpError,
        "labels have no axis of examples.*batch",
    ),
    "manager": (lambda p: tf.train.CheckpointManager("a", p, 3), TypeError, "needs a tf.train.Checkpoint"),
    # Losses.
    "one-hot labels": (
        lambda p: tf.compat.v1.losses.sparse_softmax_cross_entropy(np.eye(3), np.eye(3)),
        ValueError,
        r"one shape, but for the last axis of the logits, got \(3, 3\) and \(3, 3\)",
    ),
    "float labels": (
        lambda p: tf.nn.sparse_softmax_cross_entropy_with_logits(np.ones(3), np.eye(3)),
        TypeError,
        "class indices, which are integers, got float",
    ),
    "sigmoid's shapes": (
        lambda p: tf.nn.sigmoid_cross_entropy_with_logits(np.ones(3), np.ones((3, 1))),
        ValueError,
        r"have one shape, got \(3,\) and \(3, 1\)",
    ),
    "softmax's shapes": (
        lambda p: tf.compat.v1.losses.softmax_cross_entropy(np.ones((3, 4)), np.eye(3)),
        ValueError,
        r"have one shape, got \(3, 4\) and \(3, 3\)",
    ),
    "weights": (
        lambda p: tf.compat.v1.losses.mean_squared_error(X, X, weights=np.ones(7)),
        ValueError,
        r"weights of shape \(7,\) cannot be broadcast",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_in_a_call_is_named(case, tmp_path):
    make, error, says = CASES[case]
    with pytest.raises(error, match=says):
        make(tmp_path)
