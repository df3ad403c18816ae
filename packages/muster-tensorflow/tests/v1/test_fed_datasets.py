"""Datasets of placeholders, which hooks of TensorFlow 1's programs feed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow.compat.v1 as tf
from muster import DatasetError
from muster_tensorflow.library.ops._one_shot import as_dataset

X = np.arange(12, dtype=np.float32).reshape(6, 2)
Y = X.sum(axis=1, keepdims=True)


class InitializerHook(tf.train.SessionRunHook):
    """Initializes an iterator that its input_fn has made."""

    def __init__(self, looks_first: bool = False) -> None:
        self.begin_with: Any = None
        self.looks_first = looks_first
        self.calls = 0

    def after_create_session(self, session: Any, coord: Any) -> None:
        self.calls += 1
        self.begin_with(session)
        if self.looks_first:
            assert session.run("global_step") == 0


def input_fn_and_hook(x: Any, y: Any, shape: Any, **options: Any) -> Any:
    hook = InitializerHook(**options)

    def input_fn() -> Any:
        features, labels = tf.placeholder(x.dtype, shape), tf.placeholder(tf.float32, [None, 1])
        dataset = tf.data.Dataset.from_tensor_slices((features * 2, labels)).batch(4)
        iterator = dataset.map(lambda a, b: ({"x": a}, b)).make_initializable_iterator()
        feeds = {features: x, labels: y}
        hook.begin_with = lambda session: session.run(iterator.initializer, feed_dict=feeds)
        return iterator.get_next()

    return input_fn, hook


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=features["x"])
    loss = tf.losses.mean_squared_error(labels, tf.layers.dense(features["x"], 1))
    train_op = tf.train.GradientDescentOptimizer(0.001).minimize(loss, tf.train.get_global_step())
    means = {"mean": tf.metrics.mean(features["x"])}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=means)


def test_an_estimator_reads_what_a_hook_feeds(tmp_path: Path) -> None:
    estimator = tf.estimator.Estimator(model_fn, tmp_path)
    input_fn, hook = input_fn_and_hook(X, Y, [None, 2], looks_first=True)
    estimator.train(input_fn, hooks=[hook])
    assert estimator.get_variable_value("global_step") == 2
    assert hook.calls == 2  # before the first batch, as far as it goes then, and with the session
    input_fn, hook = input_fn_and_hook(X + 1, Y, X.shape)
    assert estimator.evaluate(input_fn, hooks=[hook])["mean"] == np.mean(2 * (X + 1))
    rows = list(estimator.predict(input_fn, hooks=[hook]))
    assert np.array(rows).tolist() == (2 * (X + 1)).tolist()


def test_what_nobody_feeds_is_told(tmp_path: Path) -> None:
    estimator = tf.estimator.Estimator(model_fn, tmp_path)
    input_fn, _ = input_fn_and_hook(X, Y, [None, 2])
    with pytest.raises(DatasetError, match=r"placeholders without values.*iterator\.initializer"):
        estimator.train(input_fn)


def test_values_that_do_not_fit_are_told() -> None:
    placeholder = tf.placeholder(tf.float32, [None, 2])
    iterator = tf.data.Dataset.from_tensor_slices(placeholder).make_initializable_iterator()
    with pytest.raises(ValueError, match="lacks the value"):
        iterator.initializer.run({})
    with pytest.raises(ValueError, match=r"shape \(6, 1\), and its shape is \(None, 2\)"):
        iterator.initializer.run({placeholder: Y})
    iterator.initializer.run({placeholder: X.astype(np.float64)})
    elements = list(as_dataset(iterator.get_next()))
    assert np.array(elements).tolist() == X.tolist()
    assert elements[0].dtype == np.float32
    with pytest.raises(ValueError, match=r"needs the shape of"):
        tf.data.Dataset.from_tensor_slices(tf.placeholder(tf.float32))


def test_text_is_fed() -> None:
    words = tf.placeholder(tf.string, [None])
    dataset = tf.data.Dataset.from_tensor_slices(words).map(lambda word: tf.strings.length(word))
    iterator = dataset.make_initializable_iterator()
    iterator.initializer.run({words: np.array(["a", "bcd"])})
    assert [int(each) for each in as_dataset(iterator.get_next())] == [1, 3]


def test_one_element_is_fed() -> None:
    row = tf.placeholder(tf.float32, [None])
    iterator = tf.data.Dataset.from_tensors(row).repeat(2).make_initializable_iterator()
    iterator.initializer.run({row: X[1]})
    assert [each.tolist() for each in as_dataset(iterator.get_next())] == [[2, 3], [2, 3]]


def test_values_of_two_iterators_are_read_together() -> None:
    features = tf.data.Dataset.from_tensor_slices(X).batch(4).make_one_shot_iterator().get_next()
    labels = tf.data.Dataset.from_tensor_slices(Y[:4]).batch(4).make_one_shot_iterator().get_next()
    ((features_read, labels_read),) = as_dataset(({"x": features}, labels))
    assert features_read["x"].tolist() == X[:4].tolist()
    assert labels_read.tolist() == Y[:4].tolist()
