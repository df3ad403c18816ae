"""Names and order of what ``evaluate`` returns; expected is what TensorFlow 2.15 gave."""

from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

X = np.linspace(0, 1, 24, dtype=np.float32).reshape(8, 3)
Y = np.arange(8, dtype=np.float32)[:, None] % 2


def one_output() -> Any:
    return tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1, "sigmoid")])


def two_outputs() -> Any:
    x = tf.keras.Input((3,))
    return tf.keras.Model(x, [tf.keras.layers.Dense(1, "sigmoid", name=name)(x) for name in ("zed", "alpha")])


def names_of(model: Any, y: Any, **compiled: Any) -> list[str]:
    """Return the names of a model, after a check that a list of results is in their order."""
    model.compile("sgd", "mse", **compiled)
    values = model.evaluate(X, y, verbose=0)
    by_name = model.evaluate(X, y, verbose=0, return_dict=True)
    assert [by_name[name] for name in model.metrics_names] == values
    assert model.test_on_batch(X, y) == pytest.approx(values)
    names: list[str] = model.metrics_names
    return names


@pytest.mark.parametrize(
    ("metrics", "names"),
    [
        (["mse", "mae"], ["mse", "mae"]),
        (["Precision", "AUC", "accuracy"], ["precision", "auc", "accuracy"]),
        (["MeanSquaredError", "mae", "acc"], ["mean_squared_error", "mae", "acc"]),
        (["TopKCategoricalAccuracy", "binary_accuracy"], ["top_k_categorical_accuracy", "binary_accuracy"]),
    ],
)
def test_metrics_have_the_names_and_the_order_of_keras_2(metrics: list[str], names: list[str]) -> None:
    assert names_of(one_output(), Y, metrics=metrics) == ["loss", *names]


@pytest.mark.parametrize(
    ("compiled", "names"),
    [
        ({}, []),
        ({"metrics": ["mae"]}, ["zed_mae", "alpha_mae"]),
        (
            {"metrics": {"alpha": ["accuracy", "AUC"], "zed": "mae"}},
            ["zed_mae", "alpha_accuracy", "alpha_auc"],
        ),
        (
            {"metrics": {"zed": ["mae"]}, "weighted_metrics": ["mse"]},
            ["zed_mae", "zed_mse", "alpha_mse"],
        ),
    ],
)
def test_metrics_of_the_first_output_come_first(compiled: dict[str, Any], names: list[str]) -> None:
    assert names_of(two_outputs(), [Y, 1 - Y], **compiled) == ["loss", "zed_loss", "alpha_loss", *names]


def test_metrics_of_the_models_own_come_last() -> None:
    class Own(tf.keras.Model):  # type: ignore[misc]  # keras is untyped
        def __init__(self) -> None:
            super().__init__()
            self.dense = tf.keras.layers.Dense(1)
            self.own = tf.keras.metrics.Mean(name="a_mean")

        def call(self, x: Any) -> Any:
            return self.dense(x)

    assert names_of(Own(), Y, metrics=["mse"]) == ["loss", "mse", "a_mean"]
