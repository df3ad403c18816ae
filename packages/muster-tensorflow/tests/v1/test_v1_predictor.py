"""``tf.contrib.predictor``: exported models as functions of dicts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow.compat.v1 as tf

X = np.float32([[1], [2], [3], [4]])


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    outputs = tf.layers.dense(features["x"], 1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        exports = {"doubled": tf.estimator.export.PredictOutput({"twice": 2 * outputs})}
        exports["serving_default"] = tf.estimator.export.PredictOutput({"y": outputs})
        return tf.estimator.EstimatorSpec(mode, predictions=outputs, export_outputs=exports)
    loss = tf.losses.mean_squared_error(labels, outputs)
    train_op = tf.train.GradientDescentOptimizer(0.01).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def receiver() -> Any:
    x = tf.placeholder(tf.float32, [None, 1], name="x")
    return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})


def test_predictors_take_and_return_dicts(tmp_path: Path) -> None:
    estimator = tf.estimator.Estimator(model_fn, tmp_path / "model")
    estimator.train(tf.estimator.inputs.numpy_input_fn({"x": X}, 2 * X, shuffle=False))
    exported = estimator.export_savedmodel(str(tmp_path / "export"), receiver)
    predict = tf.contrib.predictor.from_saved_model(exported)
    expected = np.array(list(estimator.predict(tf.estimator.inputs.numpy_input_fn({"x": X}, shuffle=False))))
    np.testing.assert_allclose(predict({"x": X.tolist()})["y"], expected, rtol=1e-6)
    assert list(predict.feed_tensors) == ["x"]
    assert list(predict.fetch_tensors) == ["y"]
    doubled = tf.contrib.predictor.from_estimator(estimator, receiver, "doubled")
    np.testing.assert_allclose(doubled({"x": X})["twice"], 2 * expected, rtol=1e-6)
    untrained = tf.contrib.predictor.from_estimator(tf.estimator.Estimator(model_fn), receiver)
    assert untrained({"x": X})["y"].shape == (4, 1)
    with pytest.raises(ValueError, match="Got signature_def_key 'other'. Available signatures are"):
        tf.contrib.predictor.from_saved_model(exported, signature_def_key="other")
    with pytest.raises(ValueError, match="lacks 'x'"):
        predict({"z": X})
