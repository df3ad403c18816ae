"""Estimators of Keras models by TensorFlow's names, and with its optimizers."""

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own

X = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
Y = (X.sum(1, keepdims=True) > 0).astype("float32")


def batches() -> Callable[[], Any]:
    return lambda: tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)


def small_model(optimizer: Any) -> Any:
    tf.keras.utils.set_random_seed(1)
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input((4,)), layers.Dense(3, "tanh"), layers.Dense(1, name="out")])
    model.compile(optimizer, "mse", metrics=["mae"])
    return model


def check_evaluation(estimator: Any, model: Any) -> None:
    found = estimator.evaluate(batches())
    expected = model.evaluate(X, Y, batch_size=8, verbose=0, return_dict=True)
    assert found.keys() == {"loss", "mae", "global_step"}
    for name in ("loss", "mae"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, err_msg=name)


def test_an_optimizer_of_tensorflow_1_is_kept(tmp_path: pathlib.Path) -> None:
    model = small_model(tf.compat.v1.train.RMSPropOptimizer(0.01, momentum=0.5))
    model.fit(X, Y, batch_size=8, shuffle=False, verbose=0)
    estimator = tf.keras.estimator.model_to_estimator(model, model_dir=tmp_path)
    estimator.train(batches())
    model.fit(X, Y, batch_size=8, shuffle=False, verbose=0)
    check_evaluation(estimator, model)


def test_train_and_evaluate(tmp_path: pathlib.Path) -> None:
    estimator = tf.keras.estimator.model_to_estimator(
        keras_model=small_model("adam"),
        config=tf.estimator.RunConfig(save_checkpoints_steps=4),
        model_dir=tmp_path,
        metric_names_map={"mae": "distance"},
    )
    train = tf.estimator.TrainSpec(lambda: batches()().repeat(), max_steps=8)
    evaluate = tf.estimator.EvalSpec(batches(), steps=None, throttle_secs=0)
    metrics, _ = tf.estimator.train_and_evaluate(estimator, train, evaluate)
    assert metrics.keys() == {"loss", "distance", "global_step"}
    assert metrics["global_step"] == 8
