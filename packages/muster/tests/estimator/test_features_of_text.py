"""Features of text in a model_fn of one's own: columns find what they need; what is unread is left out."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster
from muster import estimator as est
from muster import feature_column as fc
from muster._errors import DatasetError
from muster._keras import keras
from muster.data import Dataset

WORDS = ["red", "green", "blue", "red"]
FEATURES = {
    "color": np.array(WORDS),
    "note": np.array(["a", "b", "c", "d"]),
    "size": np.float32([1, 2, 3, 4]),
}
LABELS = np.float32([1, 0, 0, 1])


def input_fn() -> Any:
    return Dataset.from_tensor_slices((FEATURES, LABELS)).repeat(200).batch(4)


COLOR = fc.categorical_column_with_vocabulary_list("color", ["red", "green", "blue"])


def model_fn(features: Any, labels: Any, mode: Any) -> Any:
    assert "note" not in features
    net = fc.dense_features(features, [fc.indicator_column(COLOR), fc.numeric_column("size")])
    logits = keras.layers.Dense(1)(net)[:, 0]
    logits += fc.linear_model(features, [fc.categorical_column_with_hash_bucket("note", 10)])[:, 0]
    if mode == "infer":
        return est.EstimatorSpec(mode, {"p": keras.ops.sigmoid(logits)})
    loss = keras.losses.BinaryCrossentropy(from_logits=True)(labels, logits)
    train_op = muster.minimize(keras.optimizers.Adam(0.1), loss, muster.get_or_create_global_step())
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def test_columns_of_a_model_fn_are_found(tmp_path: Path) -> None:
    estimator = est.Estimator(model_fn, tmp_path)
    estimator.train(input_fn, steps=100)
    assert estimator.evaluate(input_fn, steps=1)["loss"] < 0.05
    fresh = est.Estimator(model_fn, tmp_path)
    predictions = [each["p"] for each, _ in zip(fresh.predict(input_fn), range(4), strict=False)]
    np.testing.assert_allclose(predictions, LABELS, atol=0.1)


def test_text_that_no_column_uses_is_left_out(tmp_path: Path) -> None:
    def numbers(features: Any, labels: Any, mode: Any) -> Any:
        assert list(features) == ["size"]
        w = keras.Variable(0.5, name="w")
        loss = keras.ops.mean(keras.ops.square(w * features["size"] - labels))
        train_op = muster.minimize(keras.optimizers.Adam(0.1), loss, muster.get_or_create_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    est.Estimator(numbers, tmp_path).train(input_fn, steps=2)


@pytest.mark.parametrize("compute", [lambda text: 2 * text, keras.ops.sum], ids=["2 *", "keras"])
def test_a_model_fn_that_computes_with_text_is_told(compute: Any, tmp_path: Path) -> None:
    def reads(features: Any, labels: Any, mode: Any) -> Any:
        return compute(features["color"])

    with pytest.raises(DatasetError, match=r"features\['color'\](, which)? is text"):
        est.Estimator(reads, tmp_path).train(input_fn, steps=2)


def test_features_may_all_be_text(tmp_path: Path) -> None:
    def words() -> Any:
        return Dataset.from_tensor_slices(({"color": FEATURES["color"]}, LABELS)).repeat(100).batch(4)

    def linear(features: Any, labels: Any, mode: Any) -> Any:
        logits = fc.linear_model(features, [COLOR])[:, 0]
        loss = keras.losses.BinaryCrossentropy(from_logits=True)(labels, logits)
        train_op = muster.minimize(keras.optimizers.Adam(0.1), loss, muster.get_or_create_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = est.Estimator(linear, tmp_path).train(words, steps=60)
    assert estimator.evaluate(words, steps=1)["loss"] < 0.1


def trained(model: Any) -> Any:
    """Return a model_fn with a model that takes the features."""

    def of_model(features: Any, labels: Any, mode: Any) -> Any:
        loss = keras.ops.mean(keras.ops.square(model()(features)[:, 0] - labels))
        train_op = muster.minimize(keras.optimizers.Adam(0.1), loss, muster.get_or_create_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return of_model


class Inner(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.columns = fc.DenseFeatures([fc.indicator_column(COLOR), fc.numeric_column("size")])
        self.dense = keras.layers.Dense(1)

    def call(self, features: Any) -> Any:
        return self.dense(self.columns(features))


def stacked() -> Any:
    inner = Inner()
    return keras.Sequential([inner.columns, inner.dense])


@pytest.mark.parametrize("model", [Inner, stacked])
def test_columns_of_a_model_of_keras_are_found(model: Any, tmp_path: Path) -> None:
    estimator = est.Estimator(trained(model), tmp_path).train(input_fn, steps=100)
    assert estimator.evaluate(input_fn, steps=1)["loss"] < 0.2


def test_columns_are_found_where_the_input_is_a_generator(tmp_path: Path) -> None:
    read = []

    def batches() -> Any:
        for number in range(3):
            read.append(number)
            yield {"color": FEATURES["color"], "size": FEATURES["size"]}, LABELS

    estimator = est.Estimator(trained(Inner), tmp_path).train(batches)
    assert estimator.get_variable_value("global_step") == 3
    assert read == [0, 1, 2]


@pytest.mark.parametrize("text", [{}, {"note": FEATURES["note"]}], ids=["numbers", "beside text"])
def test_features_may_be_structures(text: Any, tmp_path: Path) -> None:
    size = FEATURES["size"]
    nested = {"of": {"size": size, "pair": (size, np.ones((4, 2), np.float32))}, **text}

    def reads(features: Any, labels: Any, mode: Any) -> Any:
        assert features.keys() == {"of"}
        w = keras.Variable(0.5, name="w")
        loss = keras.ops.mean(
            keras.ops.square(w * features["of"]["size"] + features["of"]["pair"][1][:, 0] - labels)
        )
        train_op = muster.minimize(keras.optimizers.Adam(0.1), loss, muster.get_or_create_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    est.Estimator(reads, tmp_path).train(
        lambda: Dataset.from_tensor_slices((nested, LABELS)).batch(4), steps=1
    )
