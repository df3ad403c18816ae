"""Integers of a feature that fit into 32 bits in the first batch and not in a later one, in a model_fn.

The values are those of TensorFlow 2.15.1.
"""

import numpy as np
import pytest

import muster_tensorflow as tf
from muster import DatasetError

v1 = tf.compat.v1
KEYS = np.array([1, 2, 3, 2**40 + 4, 5, 2**33 + 6], "int64")
X = np.ones((6, 2), "float32")
RESULTS = {
    "operators": (lambda key: (key % 7) + (key // 7) % 3, [1, 2, 3, 8, 5, 2]),
    "large numbers": (lambda key: tf.where(key > 100, key - 2**33, key), [1, 2, 3, 1090921693188, 5, 6]),
    "comparisons": (lambda key: tf.equal(key, 2**40 + 4), [False, False, False, True, False, False]),
    "bits": (lambda key: tf.bitwise.right_shift(key, np.int64(2)) % 7, [0, 0, 0, 5, 1, 3]),
    "look-ups": (lambda key: tf.gather(tf.constant([1.0, 2, 3, 4, 5]), key % 5), [2, 3, 4, 1, 1, 4]),
}


def estimator(compute, **options):
    def model_fn(features, labels, mode):
        found = compute(features["key"])
        out = v1.layers.dense(features["x"], 1)
        if mode == "infer":
            return tf.estimator.EstimatorSpec(mode, predictions={"found": found})
        numbers = tf.cast(found, tf.float32)
        loss = tf.reduce_mean((out - labels) ** 2) + tf.reduce_mean(numbers)
        if mode == "eval":
            metrics = {"mean": v1.metrics.mean(numbers)}
            return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
        step = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_or_create_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)

    return tf.estimator.Estimator(model_fn, config=tf.estimator.RunConfig(**options))


def data(keys=KEYS):
    return tf.data.Dataset.from_tensor_slices(({"x": X, "key": keys}, X[:, :1])).batch(2)


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_those_of_64_bits(name):
    compute, expected = RESULTS[name]
    given = list(estimator(compute).predict(lambda: data().map(lambda features, labels: features)))
    assert [each["found"].tolist() for each in given] == expected


def test_text_is_made_of_numbers_that_are_computed_of_features():
    keys = np.arange(6, dtype="int64")
    own = estimator(lambda key: tf.strings.as_string(key + 1))
    given = list(own.predict(lambda: data(keys).map(lambda features, labels: features)))
    assert [each["found"] for each in given] == [b"1", b"2", b"3", b"4", b"5", b"6"]


class Losses(tf.estimator.SessionRunHook):
    def __init__(self):
        self.losses = []

    def before_run(self, run_context):
        return tf.estimator.SessionRunArgs("loss")

    def after_run(self, run_context, run_values):
        self.losses.append(float(run_values.results))


@pytest.mark.parametrize(("devices", "at_once"), [(1, 1), (1, 3), (2, 1)])
def test_training_and_evaluation_go_on(devices, at_once):
    """As with the results as a feature, which all fit."""
    strategy = tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(devices)])
    options = {"train_distribute": strategy, "eval_distribute": strategy, "tf_random_seed": 1}
    options["steps_per_execution"] = at_once
    compute, results = RESULTS["operators"]
    found = []
    for keys, of_key in ((KEYS, compute), (np.array(results, "int64"), lambda key: key)):
        own, hook = estimator(of_key, **options), Losses()
        own.train(lambda keys=keys: data(keys).repeat(), hooks=[hook], steps=5)
        metrics = own.evaluate(lambda keys=keys: data(keys))
        found.append((hook.losses, metrics["loss"], metrics["mean"]))
    assert found[0] == found[1]
    assert found[0][2] == np.mean(results)


def test_what_only_a_step_can_compute_names_the_feature_and_the_number():
    own = estimator(lambda key: tf.reduce_max(key, axis=0, keepdims=True) + 0 * key)
    with pytest.raises(DatasetError, match=r"holds 1099511627780 in 'key', a number of type int64"):
        own.train(lambda: data().repeat(), steps=4)
    own = estimator(lambda key: tf.reduce_max(key, axis=0, keepdims=True) + 2**40)
    with pytest.raises(DatasetError, match=r"a whole number that does not fit into 32 bits, in which steps"):
        own.train(lambda: data().repeat(), steps=4)
