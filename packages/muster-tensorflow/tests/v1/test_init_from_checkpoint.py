"""``tf.compat.v1.train.init_from_checkpoint`` in a model_fn."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import muster_tensorflow.compat.v1 as tf
from muster._errors import TraceError
from muster.checkpoint import _mapped_array
from tensorflow_checkpoints import recorded

HIDDEN = {"hidden/kernel", "hidden/bias"}


def trained(model_dir: Path, assignment_map: Any, units: int = 6) -> dict[str, Any]:
    """Train one step at rate zero from the map; return the variables."""
    prefix, _ = recorded("custom_model_fn")

    def model_fn(features: Any, labels: Any, mode: Any) -> Any:
        with tf.name_scope("net"):
            hidden = tf.layers.dense(features, units, name="hidden")
            output = tf.layers.dense(hidden, 3, name="output")
        chosen = assignment_map(tf.trainable_variables()) if callable(assignment_map) else assignment_map
        tf.train.init_from_checkpoint(prefix.parent, chosen)
        loss = tf.reduce_mean(output)
        step = tf.train.get_or_create_global_step()
        train_op = tf.train.GradientDescentOptimizer(0.0).minimize(loss, step)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = tf.estimator.Estimator(model_fn, str(model_dir))
    batch = np.ones((2, 1), np.float32), np.zeros(2, np.int32)
    estimator.train(lambda: tf.data.Dataset.from_tensors(batch), steps=1)
    return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


def stored(name: str) -> Any:
    return np.float32(recorded("custom_model_fn")[1]["variables"][name]["value"])


@pytest.mark.parametrize(
    "assignment_map",
    [
        {"hidden/": "net/hidden/"},
        {"hidden/kernel": "net/hidden/kernel", "hidden/bias": "net/hidden/bias"},
        [("hidden/kernel", "net/hidden/kernel"), ("hidden/bias", "net/hidden/bias")],
        lambda variables: {"hidden/kernel": variables[0], "hidden/bias": variables[1]},
    ],
    ids=["scopes", "paths", "pairs", "variables"],
)
def test_variables_start_from_the_checkpoint(tmp_path: Path, assignment_map: Any) -> None:
    values = trained(tmp_path, assignment_map)
    for name in HIDDEN:
        np.testing.assert_array_equal(values[f"net/{name}"], stored(name))
    assert values["global_step"] == 1
    assert not np.array_equal(values["net/output/kernel"], stored("dense/kernel"))


def test_large_variables_start_from_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_mapped_array, "LEAST_MAPPED_BYTES", 0)
    values = trained(tmp_path, {"hidden/": "net/hidden/"})
    for name in HIDDEN:
        np.testing.assert_array_equal(values[f"net/{name}"], stored(name))


def test_a_checkpoint_of_the_model_itself_comes_first(tmp_path: Path) -> None:
    before = trained(tmp_path, {})
    after = trained(tmp_path, {"hidden/": "net/hidden/"})
    np.testing.assert_array_equal(before["net/hidden/kernel"], after["net/hidden/kernel"])
    assert after["global_step"] == 2
    assert not np.array_equal(after["net/hidden/kernel"], stored("hidden/kernel"))


@pytest.mark.parametrize(
    ("assignment_map", "units", "message"),
    [
        ({"hidden/": "net/hidden/"}, 7, r"Shape of variable net/hidden/kernel \(\(1, 7\)\) doesn't match"),
        ({"/": "/"}, 6, "Tensor net/hidden/kernel is not found in .* checkpoint"),
        ({"/": "net/"}, 6, "Tensor output/kernel is not found in .* checkpoint"),
        ({"hidden/kernel": "net/nothing"}, 6, "The model has no variable 'net/nothing' yet"),
        ({"hidden": "net/hidden/"}, 6, "Should be 'scope/': 'other_scope/'"),
    ],
)
def test_a_wrong_map_is_an_error(tmp_path: Path, assignment_map: Any, units: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trained(tmp_path, assignment_map, units)


def test_it_needs_a_model_fn() -> None:
    prefix, _ = recorded("custom_model_fn")
    with pytest.raises(TraceError, match="init_from_checkpoint was called outside of a step"):
        tf.train.init_from_checkpoint(prefix, {})
