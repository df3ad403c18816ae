"""What programs use of tf.contrib, and Estimators made of others."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from v1_steps import outputs_of

import muster.compat.tensorflow.compat.v1 as tf

layers, slim = tf.contrib.layers, tf.contrib.slim
X = np.float32([[1, -2], [3, 4]])


def test_layers_are_rectified_and_regularized() -> None:
    def step(_: Any) -> dict[str, Any]:
        start = tf.constant_initializer(1.0)
        one = layers.fully_connected(
            X, 1, weights_initializer=start, weights_regularizer=layers.l2_regularizer(0.5)
        )
        return {
            "one": one,
            "linear": layers.linear(X, 1, weights_initializer=start),
            "loss": tf.losses.get_total_loss(),
        }

    outputs = outputs_of(step)
    assert outputs["one"].ravel().tolist() == [0, 7]
    assert outputs["linear"].ravel().tolist() == [-1, 7]
    assert float(outputs["loss"]) == 0.5 * 2 / 2


def test_arg_scope_gives_defaults_in_its_block() -> None:
    def step(_: Any) -> dict[str, Any]:
        with slim.arg_scope(
            [slim.fully_connected], activation_fn=None, weights_initializer=tf.ones_initializer()
        ) as scope:
            inside = slim.fully_connected(X, 1)
        with slim.arg_scope(scope):
            again = slim.fully_connected(X, 1, biases_initializer=tf.ones_initializer())
        return {"inside": inside, "again": again}

    outputs = outputs_of(step)
    assert outputs["inside"].ravel().tolist() == [-1, 7]
    assert outputs["again"].ravel().tolist() == [0, 8]
    with pytest.raises(ValueError, match="not decorated"), slim.arg_scope([len], x=1):
        pass


def test_layer_norm_normalizes_examples() -> None:
    outputs = outputs_of(lambda _: {"y": layers.layer_norm(X, begin_norm_axis=-1)})
    np.testing.assert_allclose(outputs["y"], [[1, -1], [-1, 1]], rtol=1e-5)


def test_hparams_are_parsed_in_their_types() -> None:
    hparams = tf.contrib.training.HParams(rate=0.1, units=[1, 2], name="a", on=False)
    assert hparams.parse("rate=1,units=[3,4,5],on=true").values() == {
        **{"rate": 1.0, "units": [3, 4, 5]},
        **{"name": "a", "on": True},
    }
    with pytest.raises(ValueError, match="Could not parse hparam: 'other=1'"):
        hparams.parse("other=1")
    with pytest.raises(ValueError, match="Could not cast hparam 'rate'"):
        hparams.parse("rate=fast")


def model_fn(features: Any, labels: Any, mode: Any) -> Any:
    predictions = {"y": tf.layers.dense(features["x"], 1)}
    if mode == "infer":
        return tf.estimator.EstimatorSpec(mode, predictions)
    loss = tf.losses.mean_squared_error(labels, predictions["y"])
    mean = tf.metrics.mean(labels)
    return tf.estimator.EstimatorSpec(
        mode,
        predictions,
        loss,
        tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step()),
        {"nested": ((mean[0], jnp.float32(3)), tf.group(mean[1]))},
    )


def input_fn() -> Any:
    def inner() -> Any:
        return tf.data.Dataset.from_tensors(({"x": X, "id": np.int32([7, 8])}, np.float32([[1], [5]])))

    return inner


def test_estimators_are_extended(tmp_path: Path) -> None:
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path)).train(input_fn)
    more = tf.estimator.add_metrics(
        estimator,
        lambda labels, predictions: {"error": tf.metrics.mean_absolute_error(labels, predictions["y"])},
    )
    results = more.evaluate(input_fn)
    assert results["nested"] == (3.0, 3.0)
    assert results["error"] > 0
    assert "error" not in estimator.evaluate(input_fn)
    forwarding = tf.contrib.estimator.forward_features(estimator, "id")
    assert [each["id"] for each in forwarding.predict(input_fn)] == [7, 8]
    with pytest.raises(ValueError, match="not expected args"):
        tf.estimator.add_metrics(estimator, lambda other: {})


def test_heads_take_an_optimizer_around_another(tmp_path: Path) -> None:
    head = tf.contrib.estimator.multi_head([tf.contrib.estimator.regression_head(name="a")])

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        logits = {"a": tf.layers.dense(features, 1, kernel_initializer=tf.zeros_initializer())}
        inner = tf.train.GradientDescentOptimizer(1.0)
        optimizer = tf.contrib.estimator.clip_gradients_by_norm(inner, 0.5)
        return head.create_estimator_spec(features, mode, logits, labels={"a": labels}, optimizer=optimizer)

    estimator = tf.estimator.Estimator(model_fn, tmp_path)
    estimator.train(lambda: tf.data.Dataset.from_tensors((np.float32([[3]]), np.float32([[4]]))))
    moved = [estimator.get_variable_value(f"dense/{name}") for name in ("kernel", "bias")]
    # The gradient is (-24, -8): a step of the length 0.5 along (3, 1).
    np.testing.assert_allclose(np.ravel(moved[0])[0], 0.5 * 3 / 10**0.5, rtol=1e-5)
    np.testing.assert_allclose(moved[1], [0.5 / 10**0.5], rtol=1e-5)
    assert estimator.get_variable_value("global_step") == 1


def test_all_reduce_of_contrib_names_an_algorithm() -> None:
    strategy = tf.contrib.distribute.MirroredStrategy(
        cross_device_ops=tf.contrib.distribute.AllReduceCrossDeviceOps("nccl", num_packs=2)
    )
    assert strategy.num_replicas_in_sync >= 1


def test_devices_are_listed_by_name():
    devices = tf.contrib.eager.list_devices()
    assert devices[0] == "/job:localhost/replica:0/task:0/device:CPU:0"
    assert tf.contrib.eager.num_gpus() == sum("device:GPU" in name for name in devices)
