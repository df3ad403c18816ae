"""Exporting a model_fn that reads text: the host does for each request what it does before each step."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster
import muster_tensorflow.compat.v1 as tf
from muster_tensorflow import contrib

WORDS = ["b", "c", "d"]
PARAMS = {"scale": 1.0}


def numbers_of(words: Any) -> Any:
    table = contrib.lookup.index_table_from_tensor(tf.constant(WORDS), num_oov_buckets=1)
    return table.lookup(words)


def by_words(features: Any, labels: Any, mode: str, params: Any) -> Any:
    """Predict sums of what each word has, and the numbers of words."""
    table = tf.get_variable("table", [4, 1], initializer=tf.zeros_initializer())
    each = tf.nn.embedding_lookup(table, numbers_of(features["words"]))
    mask = tf.sequence_mask(features["length"], dtype=tf.float32)
    sums = tf.reduce_sum(each[:, :, 0] * mask, axis=1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(
            mode, predictions={"sums": sums, "numbers": numbers_of(features["words"])}
        )
    loss = tf.reduce_mean(tf.square(sums - labels))
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def words_receiver() -> Any:
    words = tf.placeholder(tf.string, [None, None], "words")
    length = tf.placeholder(tf.int32, [None], "length")
    given = {"words": words, "length": length}
    return tf.estimator.export.ServingInputReceiver(given, given)


def exported(model_fn: Callable[..., Any], features: Any, receiver: Any, folder: Path) -> Any:
    """Train a step, and return the Estimator and a function that asks what was exported of it."""
    estimator = tf.estimator.Estimator(model_fn, folder / "model", params=PARAMS)
    labels = np.ones(len(next(iter(features.values()))), np.float32)
    estimator.train(lambda: (features, labels), max_steps=1)
    path = estimator.export_saved_model(folder / "exported", receiver)
    return estimator, contrib.predictor.from_saved_model(path)


def by_split(features: Any, labels: Any, mode: str, params: Any) -> Any:
    """Predict the number of known words of texts."""
    words = tf.sparse_tensor_to_dense(tf.string_split(features["texts"]), default_value="")
    scale = tf.get_variable("scale", [], initializer=tf.ones_initializer())
    known = scale * tf.reduce_sum(tf.cast(numbers_of(words) < 3, tf.float32), axis=1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"known": known})
    loss = tf.reduce_mean(tf.square(known - labels))
    train_op = tf.train.GradientDescentOptimizer(0.0).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def test_there_may_be_more_words_than_rows(tmp_path: Path) -> None:
    def receiver() -> Any:
        given = {"texts": tf.placeholder(tf.string, [None], "texts")}
        return tf.estimator.export.ServingInputReceiver(given, given)

    _, ask = exported(by_split, {"texts": np.array(["b x", "c"])}, receiver, tmp_path)
    assert ask({"texts": ["b c d x b", "x"]})["known"].tolist() == [4, 0]


def test_it_answers_what_the_estimator_predicts(tmp_path: Path) -> None:
    features = {"words": np.array([["b", "c"], ["x", "b"]]), "length": np.array([2, 1], np.int32)}
    estimator, ask = exported(by_words, features, words_receiver, tmp_path)
    asked = {
        "words": np.array([["d", "b", "b"], ["b", "c", ""], ["x", "", ""]]),
        "length": np.array([3, 2, 1]),
    }
    predicted = list(estimator.predict(lambda: tf.data.Dataset.from_tensors(asked)))
    answer = ask(asked)
    assert answer["sums"].tolist() == [each["sums"] for each in predicted]
    assert answer["sums"] == pytest.approx([0.2, 0.2, 0.1])
    assert answer["numbers"].tolist() == [[2, 0, 0], [0, 1, 3], [3, 3, 3]]
    assert ask({"words": [["b"]], "length": [1]})["sums"].shape == (1,)


def by_two_texts(features: Any, labels: Any, mode: str, params: Any) -> Any:
    """Predict from two sentences, each with a length of its own."""
    table = tf.get_variable("table", [4, 1])
    means = [
        tf.reduce_mean(tf.nn.embedding_lookup(table, numbers_of(features[key])), axis=[1, 2])
        for key in ("a", "b")
    ]
    total = (means[0] + means[1]) * params["scale"]
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=total)
    loss = tf.reduce_mean(tf.square(total - labels))
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def test_texts_have_sizes_of_their_own(tmp_path: Path) -> None:
    def receiver() -> Any:
        given = {key: tf.placeholder(tf.string, [None, None]) for key in ("a", "b", "unused")}
        return tf.estimator.export.ServingInputReceiver(given, given)

    features = {key: np.array([["b", "c"]]) for key in ("a", "b", "unused")}
    estimator, ask = exported(by_two_texts, features, receiver, tmp_path)
    asked = {"a": np.array([["b", "x", "d"]]), "b": np.array([["c"]]), "unused": np.array([["b"]])}
    (predicted,) = estimator.predict(lambda: tf.data.Dataset.from_tensors(asked))
    assert ask(asked)["output"] == pytest.approx(predicted)


def by_number(features: Any, labels: Any, mode: str, params: Any) -> Any:
    """Read numbers that are text, for which alone it works."""
    weight = tf.get_variable("weight", [])
    value = tf.strings.to_number(features["text"]) * weight
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=value)
    loss = tf.reduce_mean(tf.square(value - labels))
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def test_text_of_examples_is_read(tmp_path: Path) -> None:
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        {"text": tf.FixedLenFeature([], tf.string)}
    )
    estimator, ask = exported(by_number, {"text": np.array(["1", "2.5"])}, receiver, tmp_path)
    weight = estimator.get_variable_value("weight")
    texts = [b"3", b"-0.5"]
    examples = [
        tf.train.Example(
            features=tf.train.Features(
                feature={"text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[text]))}
            )
        ).SerializeToString()
        for text in texts
    ]
    assert ask({"examples": examples})["output"] == pytest.approx([3 * weight, -0.5 * weight])


def test_what_each_trace_computes_otherwise_is_refused(tmp_path: Path) -> None:
    traces = 0

    def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
        nonlocal traces
        if mode == tf.estimator.ModeKeys.PREDICT:
            traces += 1
            text = tf.strings.regex_replace(features["text"], "x", str(traces))
            return by_number({"text": text}, labels, mode, params)
        return by_number(features, labels, mode, params)

    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(
        {"text": tf.FixedLenFeature([], tf.string)}
    )
    with pytest.raises(muster.SavedModelError, match="otherwise in each trace"):
        exported(model_fn, {"text": np.array(["1", "2.5"])}, receiver, tmp_path)
    assert not (tmp_path / "exported").exists()
