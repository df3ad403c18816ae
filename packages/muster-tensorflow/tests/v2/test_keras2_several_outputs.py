"""Metrics and names of models with several outputs; the names are those of TensorFlow 2.15."""

import numpy as np
import pytest

import muster_tensorflow as tf

X = np.ones((4, 3), np.float32)
Y = [np.zeros((4, 1), np.float32), np.ones((4, 1), np.float32)]


def names_of(model, inputs=X, y=Y, **metrics):
    model.compile("sgd", "mse", **metrics)
    return sorted(model.fit(inputs, y, verbose=0).history)


def two_outputs(make=list):
    x = tf.keras.Input((3,))
    return tf.keras.Model(x, make(tf.keras.layers.Dense(1, name=name)(x) for name in "ab"))


@pytest.mark.parametrize(
    ("metrics", "names"),
    [
        ({"metrics": ["mse", "mae"]}, ["a_loss", "a_mae", "a_mse", "b_loss", "b_mae", "b_mse", "loss"]),
        ({"metrics": ["mae"]}, ["a_loss", "a_mae", "b_loss", "b_mae", "loss"]),
        ({"metrics": [["mse"], ["mae"]]}, ["a_loss", "a_mse", "b_loss", "b_mae", "loss"]),
        ({"metrics": {"b": "mae"}}, ["a_loss", "b_loss", "b_mae", "loss"]),
        ({"metrics": [None, "mae"]}, ["a_loss", "a_mae", "b_loss", "b_mae", "loss"]),
        ({"weighted_metrics": ["mae"]}, ["a_loss", "a_mae", "b_loss", "b_mae", "loss"]),
    ],
)
def test_a_plain_list_is_of_all_outputs(metrics, names):
    assert names_of(two_outputs(), **metrics) == names


def test_each_output_has_a_metric_of_its_own():
    model = two_outputs()
    model.compile("sgd", "mse", metrics=[tf.keras.metrics.MeanAbsoluteError(name="q")])
    found = model.evaluate(X, Y, verbose=0, return_dict=True)

    a, b = model(X)
    assert found["a_q"] == pytest.approx(float(np.abs(a - Y[0]).mean()), rel=1e-5)
    assert found["b_q"] == pytest.approx(float(np.abs(b - Y[1]).mean()), rel=1e-5)


def test_outputs_by_name():
    x = tf.keras.Input((3,))
    model = tf.keras.Model(x, {name: tf.keras.layers.Dense(1, name=name)(x) for name in "ab"})

    assert names_of(model, y=dict(zip("ab", Y, strict=True)), metrics=["mae"]) == [
        "a_loss",
        "a_mae",
        "b_loss",
        "b_mae",
        "loss",
    ]


def test_outputs_of_one_layer_have_names_of_their_own():
    x, z = tf.keras.Input((3,)), tf.keras.Input((3,))
    dense = tf.keras.layers.Dense(1, name="a")
    model = tf.keras.Model([x, z], [dense(x), dense(z)])

    assert model.output_names == ["a", "a_1"]
    assert names_of(model, [X, X], metrics=["mae"]) == ["a_1_loss", "a_1_mae", "a_loss", "a_mae", "loss"]
    assert tf.keras.models.clone_model(model).output_names == ["a", "a_1"]
