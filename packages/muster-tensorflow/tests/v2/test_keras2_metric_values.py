"""Operators on metrics; it fails when what is used of Keras changes."""

import numpy as np
import pytest

import muster_tensorflow.compat.v1 as tf
from muster import keras
from muster.distribute import MirroredStrategy
from muster.estimator import Estimator, EstimatorSpec, RunConfig

RNG = np.random.default_rng(7)
LABELS, PREDICTED = RNG.integers(0, 2, 50), RNG.integers(0, 2, 50)
BOTH = (LABELS & PREDICTED).sum()
F1 = 2 * BOTH / (LABELS.sum() + PREDICTED.sum())


def model_fn(features, labels, mode):
    precision, recall = tf.metrics.precision(labels, features), tf.metrics.recall(labels, features)
    f1 = 2 * precision[0] * recall[0] / (precision[0] + recall[0])
    metrics = {
        "precision": precision,
        "f1": (f1, tf.group(precision[1], recall[1])),
        "loss_of_f1": (1 - f1, f1),
    }
    return EstimatorSpec(mode, loss=tf.reduce_mean(tf.to_float(features)), eval_metric_ops=metrics)


def input_fn():
    return tf.data.Dataset.from_tensor_slices((PREDICTED, LABELS)).batch(8)


@pytest.mark.parametrize("devices", [1, 2])
def test_a_score_of_two_metrics_counts_all_batches_of_all_replicas(tmp_path, devices):
    strategy = MirroredStrategy([f"/cpu:{number}" for number in range(devices)])
    found = Estimator(model_fn, tmp_path, RunConfig(eval_distribute=strategy)).evaluate(input_fn)
    assert found["f1"] == pytest.approx(F1, rel=1e-6)
    assert found["loss_of_f1"] == pytest.approx(1 - F1, rel=1e-6)
    assert found["precision"] == pytest.approx(BOTH / PREDICTED.sum(), rel=1e-6)


def test_operators():
    one, two = keras.metrics.Mean(), keras.metrics.Sum()
    one.update_state([1.0, 2.0])
    two.update_state([4.0, 4.0])
    for made, expected in (
        (one + two, 9.5),
        (two - 1, 7),
        (1 - one, -0.5),
        (two / one, 16 / 3),
        (-(one**2), -2.25),
    ):
        assert float(made.result()) == pytest.approx(expected)
    with pytest.raises(TypeError, match="computed of other metrics"):
        (one + two).update_state(1)
