"""A model_fn has the host compute with text before each step."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muster import estimator as est
from muster import get_or_create_global_step, keras, minimize
from muster._errors import DatasetError
from muster.data import Dataset
from muster.distribute import MirroredStrategy
from muster.program import HostValue

WORDS = ["red", "green", "blue"]
TAGS = ["low", "mid", "high"]
SENTENCES = [["red", "green"], ["blue", "green", "red"], ["odd"], ["blue", "blue"]]
TAGGED = [[TAGS[WORDS.index(word)] if word in WORDS else "low" for word in each] for each in SENTENCES]


def on_host(function: Any, *arguments: Any) -> Any:
    """Compute with text as lookup tables do."""
    (source,) = {each.source for each in arguments if isinstance(each, HostValue)}
    return source.compute(function, arguments, {})


def lengths(texts: Any) -> Any:
    return np.char.str_len(np.asarray(texts, str))


def numbers(texts: Any, vocabulary: list[str]) -> Any:
    texts = np.asarray(texts, str)
    known = {word: number for number, word in enumerate(vocabulary)}
    found = [known.get(word, len(vocabulary)) for word in texts.ravel().tolist()]
    return np.array(found, np.int32).reshape(texts.shape)


def minimized(loss: Any) -> Any:
    return minimize(keras.optimizers.Adam(0.1), loss, get_or_create_global_step())


def sentences() -> Any:
    counts = [len(each) for each in SENTENCES]
    padded = [each + ["<pad>"] * (3 - len(each)) for each in SENTENCES]
    tagged = [each + ["low"] * (3 - len(each)) for each in TAGGED]
    dataset = Dataset.from_tensor_slices(((padded, np.int32(counts)), tagged))
    return dataset.repeat(30).batch(4)


def tagger(features: Any, labels: Any, mode: Any) -> Any:
    words, counts = features
    assert words.shape[1:] == (3,)
    table = keras.layers.Embedding(4, 8, name="words")
    logits = keras.layers.Dense(3)(table(on_host(numbers, words, WORDS)))
    best = keras.ops.argmax(logits, -1)
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, {"ids": best, "tags": est.Words(best, tuple(TAGS))})
    tags = on_host(numbers, labels, TAGS)
    weights = keras.ops.cast(np.arange(3) < counts[:, None], "float32")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(tags, logits, weights)
    right, mean = keras.metrics.Accuracy(name="accuracy"), keras.metrics.Mean(name="words")
    right.update_state(tags, best, weights)
    mean.update_state(counts)
    metrics = {"accuracy": right, "words": mean}
    return est.EstimatorSpec(mode, loss=loss, train_op=minimized(loss), eval_metric_ops=metrics)


@pytest.mark.samples("2")
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
        x = keras.ops.cast(compute(features), "float32")
        weight = keras.Variable(0.5, name="weight")
        loss = keras.ops.mean(keras.ops.square(weight * x - labels))
        mean = keras.metrics.Mean(name="x")
        mean.update_state(x)
        return est.EstimatorSpec(mode, loss=loss, train_op=minimized(loss), eval_metric_ops={"x": mean})

    return model_fn


def columns() -> Any:
    features = {"color": np.array([*WORDS, "red"]), "size": np.float32([1, 2, 3, 4])}
    return Dataset.from_tensor_slices((features, np.float32([1, 0, 0, 1]))).batch(4)


def upper(texts: Any) -> Any:
    return np.char.upper(np.asarray(texts, str))


@pytest.mark.parametrize(
    ("compute", "mean"),
    [
        (lambda features: on_host(lengths, features["color"]), 3.75),
        (lambda features: on_host(lengths, on_host(upper, features["color"])) * features["size"], 9.25),
        (lambda features: on_host(numbers, features["color"], ["red"]), 0.5),
    ],
    ids=["length", "chain", "numbers"],
)
def test_what_is_computed_of_text(compute: Any, mean: float, tmp_path: Path) -> None:
    estimator = est.Estimator(regression(compute), tmp_path).train(columns)
    assert estimator.evaluate(columns)["x"] == pytest.approx(mean)


def test_names_of_classes_are_labels(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: Any) -> Any:
        head = est.MultiClassHead(3, label_vocabulary=TAGS)
        logits = keras.layers.Dense(3)(features["x"])
        return head.create_estimator_spec(features, mode, logits, labels, train_op_fn=minimized)

    def named() -> Any:
        features = {"x": np.eye(3, dtype=np.float32)}
        return Dataset.from_tensor_slices((features, TAGS)).repeat(40).batch(3)

    estimator = est.Estimator(model_fn, tmp_path).train(named)
    assert estimator.evaluate(named)["accuracy"] == 1.0
    assert [each["classes"][0] for each, _ in zip(estimator.predict(named), range(3), strict=False)] == [
        tag.encode() for tag in TAGS
    ]


def test_text_is_no_number(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"features\['color'\](, which)? is text"):
        est.Estimator(regression(lambda features: features["color"]), tmp_path).train(columns)


def test_a_function_that_fails_with_text_is_named(tmp_path: Path) -> None:
    def sine(texts: Any) -> Any:
        return np.sin(texts)

    compute = regression(lambda features: on_host(sine, features["color"]))
    with pytest.raises(DatasetError, match=r"sine fails with features\['color'\], which is text"):
        est.Estimator(compute, tmp_path).train(columns)


def test_text_and_what_a_step_computes(tmp_path: Path) -> None:
    def both(texts: Any, sizes: Any) -> Any:
        return lengths(texts) + sizes

    compute = regression(lambda features: on_host(both, features["color"], features["size"] * 2))
    with pytest.raises(TypeError, match="both takes a value of the batch that the host has, such as text"):
        est.Estimator(compute, tmp_path).train(columns)


def test_a_row_for_each_example(tmp_path: Path) -> None:
    def paired(texts: Any) -> Any:
        return lengths(texts).reshape(2, 2)

    compute = regression(lambda features: on_host(paired, features["color"]))
    with pytest.raises(TypeError, match="a row for each"):
        est.Estimator(compute, tmp_path).train(columns)


def test_a_model_fn_that_asks_for_something_new_each_time(tmp_path: Path) -> None:
    calls = iter(range(1000))
    compute = regression(lambda features: on_host(numbers, features["color"], [str(next(calls))]))
    with pytest.raises(DatasetError, match="otherwise in each trace"):
        est.Estimator(compute, tmp_path).train(columns)


def test_arithmetic_with_text_says_that_it_is_text(tmp_path: Path) -> None:
    def model_fn(features: Any, labels: Any, mode: Any) -> Any:
        loss = keras.ops.mean((keras.layers.Dense(1)(features)[:, 0] - labels) ** 2)
        return est.EstimatorSpec(mode, loss=loss, train_op=minimized(loss))

    rows = [(np.ones((4, 2), np.float32), np.array(list("abcd")))]
    with pytest.raises(DatasetError, match="labels is text"):
        est.Estimator(model_fn, tmp_path).train(lambda: rows)
