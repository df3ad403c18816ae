"""``tf.contrib.estimator.replicate_model_fn`` and ``TowerOptimizer``."""

import logging
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import muster_tensorflow.compat.v1 as tf
from muster_tensorflow.library.contrib import towers

contrib = tf.contrib.estimator


def test_a_replicated_model_fn_computes_whole_batches(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def model_fn(features: Any, labels: Any, mode: Any, params: Any) -> Any:
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        loss = tf.losses.mean_squared_error(labels, features["x"] * w)
        optimizer = contrib.TowerOptimizer(tf.train.GradientDescentOptimizer(params["rate"]))
        train_op = optimizer.minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def input_fn() -> Any:
        return tf.data.Dataset.from_tensors(({"x": np.array([1.0, 2.0], "f")}, np.ones(2, "f")))

    class Gpu:
        platform = "gpu"

    monkeypatch.setattr(jax, "local_devices", lambda: [Gpu()] * 2)
    replicated = contrib.replicate_model_fn(model_fn, devices=["/gpu:0", "/gpu:1"])
    monkeypatch.undo()
    estimator = tf.estimator.Estimator(replicated, str(tmp_path), params={"rate": 0.1})
    with caplog.at_level(logging.WARNING, logger=towers.__name__):
        estimator.train(input_fn, steps=1)
    assert estimator.get_variable_value("w") == pytest.approx(0.3)  # 0.1 * mean of 2 * x * (1 - 0)
    (said,) = [each.message for each in caplog.records if each.name == towers.__name__]
    assert "one device computes, of 2" in said


def test_wrong_towers_and_functions_of_optimizers() -> None:
    with pytest.raises(ValueError, match="need to be reduced in some way, yet none reduction"):
        contrib.replicate_model_fn(lambda features: None, tf.losses.Reduction.NONE)
    made = contrib.TowerOptimizer(lambda: tf.train.AdamOptimizer(0.1))
    assert isinstance(made, tf.train.AdamOptimizer)
