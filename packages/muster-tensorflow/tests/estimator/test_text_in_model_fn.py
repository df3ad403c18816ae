"""A model_fn computes with text: the host looks it up before each step."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow.compat.v1 as tf
from muster import estimator as est
from muster import keras, minimize
from muster._errors import DatasetError, TraceError
from muster.distribute import MirroredStrategy
from muster_tensorflow import contrib

WORDS = ["red", "green", "blue"]
TAGS = ["low", "mid", "high"]
SENTENCES = [["red", "green"], ["blue", "green", "red"], ["odd"], ["blue", "blue"]]
TAGGED = [[TAGS[WORDS.index(word)] if word in WORDS else "low" for word in each] for each in SENTENCES]


def sentences() -> Any:
    lengths = [len(each) for each in SENTENCES]
    padded = [each + ["<pad>"] * (3 - len(each)) for each in SENTENCES]
    tagged = [each + ["low"] * (3 - len(each)) for each in TAGGED]
    dataset = tf.data.Dataset.from_tensor_slices(((padded, np.int32(lengths)), tagged))
    return dataset.repeat(30).batch(4)


def tagger(features: Any, labels: Any, mode: Any) -> Any:
    words, lengths = features
    assert words.shape[1:] == (3,)
    assert tf.shape(words)[1] == 3
    vocabulary = contrib.lookup.index_table_from_tensor(WORDS, num_oov_buckets=1)
    table = tf.get_variable("words", [4, 8])
    logits = tf.layers.dense(tf.nn.embedding_lookup(table, vocabulary.lookup(words)), 3)
    best = tf.argmax(logits, -1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        names = contrib.lookup.index_to_string_table_from_tensor(TAGS)
        return est.EstimatorSpec(mode, {"ids": best, "tags": names.lookup(tf.to_int64(best))})
    tags = contrib.lookup.index_table_from_tensor(TAGS).lookup(labels)
    weights = tf.to_float(tf.sequence_mask(lengths))
    loss = tf.losses.sparse_softmax_cross_entropy(tags, logits, weights)
    metrics = {"accuracy": tf.metrics.accuracy(tags, best, weights), "words": tf.metrics.mean(lengths)}
    train_op = tf.train.AdamOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


@pytest.mark.parametrize("devices", [1, 2])
def test_words_and_tags(devices: int, tmp_path: Path) -> None:
    strategy = MirroredStrategy(["CPU:0", "CPU:1"]) if devices == 2 else None
    config = est.RunConfig(train_distribute=strategy, eval_distribute=strategy)
    estimator = est.Estimator(tagger, tmp_path, config).train(sentences)
    scores = estimator.evaluate(sentences)
    assert scores["accuracy"] == 1.0
    assert scores["words"] == 2.0
    first = next(iter(estimator.predict(sentences)))
    assert first["tags"].tolist()[:2] == [b"low", b"mid"]
    assert first["ids"].tolist()[:2] == [0, 1]


def regression(compute: Any) -> Any:
    """Return a model_fn that trains a weight of what is computed of features."""

    def model_fn(features: Any, labels: Any, mode: Any) -> Any:
        x = tf.cast(compute(features), tf.float32)
        weight = tf.get_variable("weight", [])
        loss = tf.reduce_mean(tf.square(weight * x - labels))
        train_op = tf.train.AdamOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        metrics = {"x": tf.metrics.mean(x)}
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)

    return model_fn


def columns() -> Any:
    features = {"color": np.array([*WORDS, "red"]), "size": np.float32([1, 2, 3, 4])}
    return tf.data.Dataset.from_tensor_slices((features, np.float32([1, 0, 0, 1]))).batch(4)


def split_at(texts: Any, ends: str) -> Any:
    return tf.sparse_tensor_to_dense(tf.string_split(texts, ends), default_value="none")


@pytest.mark.parametrize(
    ("compute", "mean"),
    [
        (lambda features: tf.strings.length(features["color"]), 3.75),
        (lambda features: tf.equal(features["color"], "red"), 0.5),
        (lambda features: tf.strings.length(tf.strings.upper(features["color"])) * features["size"], 9.25),
        (lambda features: tf.strings.length(features["color"][:, None])[:, 0], 3.75),
        (lambda features: tf.strings.to_hash_bucket_fast(features["color"], 1), 0.0),
        (lambda features: tf.equal(tf.strings.bytes_split(features["color"]).to_tensor(""), "e"), 1 / 4),
        (lambda features: tf.equal(split_at(features["color"], "e"), "r"), 1 / 4),
    ],
    ids=["length", "equal", "chain", "part", "hash", "ragged", "sparse"],
)
def test_what_is_computed_of_text(compute: Any, mean: float, tmp_path: Path) -> None:
    def rows(features: Any) -> Any:
        x = compute(features)
        return tf.reduce_mean(tf.cast(x, tf.float32), -1) if x.ndim == 2 else x

    estimator = est.Estimator(regression(rows), tmp_path).train(columns)
    assert estimator.evaluate(columns)["x"] == pytest.approx(mean)


def test_names_of_classes_are_labels(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: Any) -> Any:
        head = est.MultiClassHead(3, label_vocabulary=TAGS)
        logits = tf.layers.dense(features["x"], 3)
        return head.create_estimator_spec(
            features,
            mode,
            logits,
            labels,
            train_op_fn=lambda loss: tf.train.AdamOptimizer(0.1).minimize(loss, tf.train.get_global_step()),
        )

    def named() -> Any:
        features = {"x": np.eye(3, dtype=np.float32)}
        return tf.data.Dataset.from_tensor_slices((features, TAGS)).repeat(40).batch(3)

    estimator = est.Estimator(model_fn, tmp_path).train(named)
    assert estimator.evaluate(named)["accuracy"] == 1.0
    assert [each["classes"][0] for each, _ in zip(estimator.predict(named), range(3), strict=False)] == [
        tag.encode() for tag in TAGS
    ]


def test_text_is_no_number(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"cast fails with features\['color'\], which is text"):
        est.Estimator(regression(lambda features: features["color"]), tmp_path).train(columns)


def test_text_and_what_a_step_computes(tmp_path: Path) -> None:
    def both(features: Any) -> Any:
        return tf.strings.length(tf.strings.join([features["color"], tf.as_string(features["size"] * 2)]))

    with pytest.raises(TraceError, match="as_string needs values that a compiled step computes"):
        est.Estimator(regression(both), tmp_path).train(columns)


def test_a_row_for_each_example(tmp_path: Path) -> None:
    compute = regression(lambda features: tf.strings.length(tf.reshape(features["color"], [2, 2])))
    with pytest.raises(TypeError, match="a row for each"):
        est.Estimator(compute, tmp_path).train(columns)


def test_a_model_fn_that_asks_for_something_new_each_time(tmp_path: Path) -> None:
    calls = iter(range(1000))
    compute = regression(
        lambda features: tf.strings.length(tf.strings.join([features["color"], str(next(calls))]))
    )
    with pytest.raises(DatasetError, match="otherwise in each trace"):
        est.Estimator(compute, tmp_path).train(columns)


def test_arithmetic_with_text_says_that_it_is_text(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: Any) -> Any:
        loss = keras.ops.mean((keras.layers.Dense(1)(features)[:, 0] - labels) ** 2)
        train_op = minimize(keras.optimizers.SGD(0.1), loss, tf.train.get_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    rows = [(np.ones((4, 2), np.float32), np.array(list("abcd")))]
    # The names of TensorFlow, which this module imports, compute on the host what they can.
    with pytest.raises((DatasetError, TypeError), match="labels is text|such as text"):
        est.Estimator(model_fn, tmp_path).train(lambda: rows)
