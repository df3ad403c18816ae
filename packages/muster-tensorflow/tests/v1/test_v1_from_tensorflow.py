"""A program of TensorFlow 1 goes on from what TensorFlow trained: weights, slots and global step."""

import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster_tensorflow.compat.v1 as tf
from muster._errors import CheckpointMismatchError
from tensorflow_checkpoints import recorded, recorded_data


def layers_model_fn(features: Any, labels: Any, mode: Any, params: Any) -> Any:
    """The program that wrote ``custom_model_fn``."""
    hidden = tf.layers.dense(features["age"], params.get("units", 6), activation=tf.nn.relu, name="hidden")
    hidden = tf.layers.batch_normalization(hidden, training=mode == tf.estimator.ModeKeys.TRAIN)
    logits = tf.layers.dense(hidden, 3)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"logits": logits})
    loss = tf.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
    optimizer = params.get("optimizer", lambda: tf.train.AdamOptimizer(0.01))()
    train_op = optimizer.minimize(loss, tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn() -> Any:
    data = recorded_data()
    features = {"age": np.float32(data["features"]["age"])}
    labels = np.int32(data["labels"]).reshape(-1)
    return tf.data.Dataset.from_tensor_slices((features, labels)).batch(16)


def copied(name: str, target: Path) -> tuple[Path, dict[str, Any]]:
    """Copy a TensorFlow model_dir; return it, and what TensorFlow says of it."""
    prefix, said = recorded(name)
    shutil.copytree(prefix.parent, target)
    return target, said


def logits_of(estimator: tf.estimator.Estimator, **more: Any) -> Any:
    return [each["logits"].tolist() for each in estimator.predict(input_fn, **more)][:8]


def test_predictions_and_losses_are_tensorflows(tmp_path: Path) -> None:
    model_dir, said = copied("custom_model_fn", tmp_path / "model")
    estimator = tf.estimator.Estimator(layers_model_fn, str(model_dir), params={})
    expected = [each["logits"] for each in said["predictions"]]
    np.testing.assert_allclose(logits_of(estimator), expected, atol=1e-5)
    metrics = estimator.evaluate(input_fn)
    assert metrics["loss"] == pytest.approx(said["evaluate"]["loss"], abs=1e-5)
    assert metrics["global_step"] == 12
    assert estimator.latest_checkpoint() == str(model_dir / "model.ckpt-12")
    assert estimator.get_variable_names() == sorted(said["variables"])
    np.testing.assert_array_equal(
        estimator.get_variable_value("dense/bias"), np.float32(said["variables"]["dense/bias"]["value"])
    )
    elsewhere = tf.estimator.Estimator(layers_model_fn, str(tmp_path / "other"), params={})
    by_path = logits_of(elsewhere, checkpoint_path=estimator.latest_checkpoint())
    np.testing.assert_allclose(by_path, expected, atol=1e-5)


def test_training_begins_with_the_slots_and_the_step(tmp_path: Path) -> None:
    model_dir, said = copied("custom_model_fn", tmp_path / "model")
    estimator = tf.estimator.Estimator(layers_model_fn, str(model_dir), params={})
    estimator.train(input_fn, max_steps=13)
    assert estimator.latest_checkpoint() == str(model_dir / "ckpt-13")
    began = {
        name: tf.train.load_variable(model_dir / "ckpt-12", name)
        for name, _ in tf.train.list_variables(model_dir / "ckpt-12")
    }
    stored = {name: np.float32(each["value"]) for name, each in said["variables"].items()}
    for name in ("hidden/kernel", "batch_normalization/gamma", "dense/bias"):
        slot = name.replace("/", "_")
        np.testing.assert_array_equal(began[name], stored[name])
        np.testing.assert_array_equal(began[f"Adam/{slot}_momentum"], stored[f"{name}/Adam"])
        np.testing.assert_array_equal(began[f"Adam/{slot}_velocity"], stored[f"{name}/Adam_1"])
    assert began["global_step"] == began["Adam/iteration"] == 12


def test_five_steps_are_those_of_adam_from_there(tmp_path: Path) -> None:
    model_dir, said = copied("custom_model_fn", tmp_path / "model")
    estimator = tf.estimator.Estimator(layers_model_fn, str(model_dir), params={})
    estimator.train(lambda: input_fn().repeat(), steps=5)
    data = recorded_data()
    age, labels = np.float32(data["features"]["age"]), np.int32(data["labels"]).reshape(-1)
    stored = {name: np.float32(each["value"]) for name, each in said["variables"].items()}
    names = [name.removesuffix("/Adam_1") for name in stored if name.endswith("/Adam_1")]
    weights = {name: stored[name] for name in names}
    first = {name: stored[f"{name}/Adam"] for name in names}
    second = {name: stored[f"{name}/Adam_1"] for name in names}
    for step in range(13, 18):
        rows = slice(16 * (step - 13) % len(age), 16 * (step - 13) % len(age) + 16)
        gradients = jax.grad(_loss)(weights, age[rows], labels[rows])
        rate = 0.01 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        for name, gradient in gradients.items():
            first[name] = 0.9 * first[name] + 0.1 * gradient
            second[name] = 0.999 * second[name] + 0.001 * gradient**2
            weights[name] = weights[name] - rate * first[name] / (np.sqrt(second[name]) + 1e-8)
    for name, expected in weights.items():
        np.testing.assert_allclose(estimator.get_variable_value(name), expected, atol=1e-4)
        assert np.abs(expected - stored[name]).max() > 1e-3


def _loss(weights: dict[str, Any], age: Any, labels: Any) -> Any:
    """The loss of `layers_model_fn` in training, by hand."""
    hidden = jax.nn.relu(age @ weights["hidden/kernel"] + weights["hidden/bias"])
    mean, variance = hidden.mean(0), hidden.var(0)
    hidden = (hidden - mean) / jnp.sqrt(variance + 1e-3)
    hidden = hidden * weights["batch_normalization/gamma"] + weights["batch_normalization/beta"]
    logits = hidden @ weights["dense/kernel"] + weights["dense/bias"]
    return -jax.nn.log_softmax(logits)[jnp.arange(len(labels)), labels].mean()


def test_another_model_is_refused_by_name(tmp_path: Path) -> None:
    model_dir, _ = copied("custom_model_fn", tmp_path / "model")
    wider = tf.estimator.Estimator(layers_model_fn, str(model_dir), params={"units": 7})
    with pytest.raises(CheckpointMismatchError, match=r"differs in shape in: .*hidden/kernel.*\[1, 6\]"):
        wider.train(input_fn, steps=1)
    other = {"optimizer": lambda: tf.train.AdagradOptimizer(0.1)}
    adagrad = tf.estimator.Estimator(layers_model_fn, str(model_dir), params=other)
    with pytest.raises(CheckpointMismatchError, match="It lacks: Adagrad/hidden_kernel_accumulator"):
        adagrad.train(input_fn, steps=1)
    assert adagrad.latest_checkpoint() == str(model_dir / "model.ckpt-12")


def test_an_optimizer_without_slots_starts_at_the_step(tmp_path: Path) -> None:
    model_dir, _ = copied("custom_model_fn", tmp_path / "model")
    plain = {"optimizer": lambda: tf.train.GradientDescentOptimizer(0.1)}
    estimator = tf.estimator.Estimator(layers_model_fn, str(model_dir), params=plain)
    estimator.train(input_fn, max_steps=14)
    assert estimator.get_variable_value("GradientDescent/iteration") == 14
