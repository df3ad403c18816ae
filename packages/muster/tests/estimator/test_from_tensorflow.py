"""An Estimator goes on from what TensorFlow trained: weights, optimizer slots and global step."""

import shutil
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster
from muster.__main__ import main
from muster._errors import CheckpointMismatchError
from muster._keras import keras
from muster.checkpoint import read_checkpoint
from muster.data import Dataset
from muster.estimator import Estimator, EstimatorSpec, ModeKeys, WarmStartSettings
from tensorflow_checkpoints import recorded, recorded_data, recorded_images


def layers_model_fn(features: Any, labels: Any, mode: Any, params: Any) -> Any:
    """The program that wrote ``custom_model_fn``, in muster's names."""
    hidden = keras.layers.Dense(params.get("units", 6), "relu", name="hidden")(features["age"])
    norm = keras.layers.BatchNormalization(name="batch_normalization")
    hidden = norm(hidden, training=mode == ModeKeys.TRAIN)
    logits = keras.layers.Dense(3, name="dense")(hidden)
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode, predictions={"logits": logits})
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)
    optimizer = params.get("optimizer", lambda: keras.optimizers.Adam(0.01, epsilon=1e-8))()
    train_op = muster.minimize(optimizer, loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn() -> Any:
    data = recorded_data()
    features = {"age": np.float32(data["features"]["age"])}
    labels = np.int32(data["labels"]).reshape(-1)
    return Dataset.from_tensor_slices((features, labels)).batch(16)


def copied(name: str, target: Path) -> tuple[Path, dict[str, Any]]:
    """Copy a TensorFlow model_dir; return it, and what TensorFlow says of it."""
    prefix, said = recorded(name)
    shutil.copytree(prefix.parent, target)
    return target, said


def logits_of(estimator: Estimator, **more: Any) -> Any:
    return [each["logits"].tolist() for each in estimator.predict(input_fn, **more)][:8]


def test_predictions_and_losses_are_tensorflows(tmp_path: Path) -> None:
    model_dir, said = copied("custom_model_fn", tmp_path / "model")
    estimator = Estimator(layers_model_fn, str(model_dir), params={})
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
    elsewhere = Estimator(layers_model_fn, str(tmp_path / "other"), params={})
    by_path = logits_of(elsewhere, checkpoint_path=estimator.latest_checkpoint())
    np.testing.assert_allclose(by_path, expected, atol=1e-5)


def test_training_begins_with_the_slots_and_the_step(tmp_path: Path) -> None:
    model_dir, said = copied("custom_model_fn", tmp_path / "model")
    estimator = Estimator(layers_model_fn, str(model_dir), params={})
    estimator.train(input_fn, max_steps=13)
    assert estimator.latest_checkpoint() == str(model_dir / "ckpt-13")
    began = read_checkpoint(model_dir / "ckpt-12").variables
    stored = {name: np.float32(each["value"]) for name, each in said["variables"].items()}
    for name in ("hidden/kernel", "batch_normalization/gamma", "dense/bias"):
        slot = name.replace("/", "_")
        np.testing.assert_array_equal(began[name], stored[name])
        np.testing.assert_array_equal(began[f"adam/{slot}_momentum"], stored[f"{name}/Adam"])
        np.testing.assert_array_equal(began[f"adam/{slot}_velocity"], stored[f"{name}/Adam_1"])
    assert began["global_step"] == began["adam/iteration"] == 12


@pytest.mark.slow
def test_five_steps_are_those_of_adam_from_there(tmp_path: Path) -> None:
    model_dir, said = copied("custom_model_fn", tmp_path / "model")
    estimator = Estimator(layers_model_fn, str(model_dir), params={})
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
    wider = Estimator(layers_model_fn, str(model_dir), params={"units": 7})
    with pytest.raises(CheckpointMismatchError, match=r"differs in shape in: .*hidden/kernel.*\[1, 6\]"):
        wider.train(input_fn, steps=1)
    other = {"optimizer": lambda: keras.optimizers.Adagrad(0.1)}
    adagrad = Estimator(layers_model_fn, str(model_dir), params=other)
    with pytest.raises(CheckpointMismatchError, match="It lacks: adagrad/hidden_kernel_accumulator"):
        adagrad.train(input_fn, steps=1)
    assert adagrad.latest_checkpoint() == str(model_dir / "model.ckpt-12")


def test_an_optimizer_without_slots_starts_at_the_step(tmp_path: Path) -> None:
    model_dir, _ = copied("custom_model_fn", tmp_path / "model")
    plain = {"optimizer": lambda: keras.optimizers.SGD(0.1)}
    estimator = Estimator(layers_model_fn, str(model_dir), params=plain)
    estimator.train(input_fn, max_steps=14)
    assert estimator.get_variable_value("sgd/iteration") == 14


def keras_model_fn(features: Any, labels: Any, mode: Any) -> Any:
    """The program that wrote ``keras_model_fn``."""
    model = keras.Sequential(
        [
            keras.layers.Conv2D(4, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(3),
        ]
    )
    return EstimatorSpec(mode, predictions={"logits": model(features)})


def test_a_keras_models_variables_are_found_without_its_name(tmp_path: Path) -> None:
    model_dir, said = copied("keras_model_fn", tmp_path / "model")
    estimator = Estimator(keras_model_fn, str(model_dir))
    images = recorded_images()
    predicted = estimator.predict(lambda: Dataset.from_tensor_slices(images).batch(8))
    logits = [each["logits"].tolist() for each in predicted][:8]
    np.testing.assert_allclose(logits, [each["logits"] for each in said["predictions"]], atol=1e-5)


def test_a_warm_start_takes_weights_and_no_slots(tmp_path: Path) -> None:
    model_dir, said = copied("custom_model_fn", tmp_path / "model")
    bias = np.float32(said["variables"]["dense/bias"]["value"])
    plain = {"optimizer": lambda: keras.optimizers.SGD(0.0)}
    export = tmp_path / "export" / "variables"
    export.mkdir(parents=True)
    for path in model_dir.glob("model.ckpt-12.*"):
        shutil.copy(path, export / path.name.replace("model.ckpt-12", "variables"))
    for source in (model_dir, model_dir / "model.ckpt-12", export.parent):
        target = tmp_path / f"from_{source.name}"
        started = Estimator(layers_model_fn, str(target), params=plain, warm_start_from=str(source))
        started.train(input_fn, steps=1)
        np.testing.assert_array_equal(started.get_variable_value("dense/bias"), bias)
        assert started.get_variable_value("global_step") == 1


def test_a_warm_start_takes_what_matches_and_what_is_mapped(tmp_path: Path) -> None:
    model_dir, said = copied("custom_model_fn", tmp_path / "model")
    stored = {name: np.float32(each["value"]) for name, each in said["variables"].items()}
    settings = WarmStartSettings(
        ckpt_to_initialize_from=str(model_dir),
        vars_to_warm_start="hidden/|batch_normalization/gamma",
        var_name_to_prev_var_name={"batch_normalization/gamma": "batch_normalization/moving_variance"},
    )
    plain = {"optimizer": lambda: keras.optimizers.SGD(0.0)}
    estimator = Estimator(layers_model_fn, str(tmp_path / "new"), params=plain, warm_start_from=settings)
    estimator.train(input_fn, steps=1)
    np.testing.assert_array_equal(estimator.get_variable_value("hidden/kernel"), stored["hidden/kernel"])
    np.testing.assert_array_equal(
        estimator.get_variable_value("batch_normalization/gamma"),
        stored["batch_normalization/moving_variance"],
    )
    assert np.abs(estimator.get_variable_value("dense/kernel") - stored["dense/kernel"]).max() > 1e-3


def test_a_list_of_patterns_takes_moving_averages_too(tmp_path: Path) -> None:
    model_dir, said = copied("custom_model_fn", tmp_path / "model")
    expected = np.float32(said["variables"]["batch_normalization/moving_mean"]["value"])
    for patterns, taken in ((["hidden", "batch_normalization/mov"], True), ("hidden|batch_norm", False)):
        settings = WarmStartSettings(str(model_dir), vars_to_warm_start=patterns)
        target = tmp_path / f"new_{taken}"
        estimator = Estimator(layers_model_fn, str(target), params={}, warm_start_from=settings)
        estimator.train(input_fn, steps=1)
        started = read_checkpoint(target / "ckpt-0").variables["batch_normalization/moving_mean"]
        assert np.array_equal(started, expected) == taken


def test_training_goes_on_from_a_converted_checkpoint_alike(tmp_path: Path) -> None:
    model_dir, _ = copied("custom_model_fn", tmp_path / "model")
    assert main(["convert", str(model_dir), str(tmp_path / "converted")]) == 0
    values = []
    for directory in (model_dir, tmp_path / "converted"):
        estimator = Estimator(layers_model_fn, str(directory), params={})
        estimator.train(input_fn, max_steps=15)
        values.append({name: estimator.get_variable_value(name) for name in estimator.get_variable_names()})
    assert "adam/hidden_kernel_velocity" in values[0]
    assert {name: value.tolist() for name, value in values[0].items()} == {
        name: value.tolist() for name, value in values[1].items()
    }
