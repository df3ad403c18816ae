"""Training by a loss of TensorFlow 1 on labels that are no classes is an error, which names them."""

import numpy as np
import pytest

import muster_tensorflow.compat.v1 as tf
from muster._errors import DatasetError
from muster.distribute import MirroredStrategy

IDS = np.arange(64) % 5


def input_fn(labels):
    return tf.data.Dataset.from_tensor_slices((IDS, labels)).batch(8).repeat(2)


def model_fn(features, labels, mode):
    logits = tf.layers.dense(tf.keras.layers.Embedding(5, 4)(features), 5)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def estimator(tmp_path, **config):
    return tf.estimator.Estimator(
        model_fn, tmp_path, tf.estimator.RunConfig(save_checkpoints_steps=1, **config)
    )


def with_label(value):
    labels = IDS.copy()
    labels[45] = value
    return labels


@pytest.mark.parametrize("value", [5, -1])
def test_training_names_the_label(tmp_path, value):
    trained = estimator(tmp_path)
    with pytest.raises(DatasetError, match=f"label value of {value} which is outside .* Label values: 0 1 2"):
        trained.train(lambda: input_fn(with_label(value)))
    assert trained.latest_checkpoint().endswith("-5")


def test_training_on_replicas_names_the_label(tmp_path):
    trained = estimator(tmp_path, train_distribute=MirroredStrategy(["/cpu:0", "/cpu:1"]))
    with pytest.raises(DatasetError, match="label value of 5 which is outside"):
        trained.train(lambda: input_fn(with_label(5)))
    assert trained.latest_checkpoint().endswith("-2")


def test_evaluation_names_the_label(tmp_path):
    with pytest.raises(DatasetError, match="label value of 7 which is outside"):
        estimator(tmp_path).evaluate(lambda: input_fn(with_label(7)))
