"""Configs of layers and models as in Keras 2: what is saved with classes that say little of themselves."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import muster_tensorflow as tf


class _Plain(tf.keras.Model):  # type: ignore[misc]  # the class is made while the program runs
    def __init__(self) -> None:
        super().__init__()
        self.dense = tf.keras.layers.Dense(2)

    def call(self, x: Any) -> Any:
        return self.dense(x)


class _Started(tf.keras.layers.Layer):  # type: ignore[misc]  # likewise
    def build(self, input_shape: Any, start: str) -> None:
        super().build(input_shape)
        self.w = self.add_weight(shape=(input_shape[-1],), initializer=start)
        self.start = start

    def call(self, x: Any) -> Any:
        return x * self.w

    def get_build_config(self) -> dict[str, Any]:
        return {**super().get_build_config(), "start": self.start}

    def build_from_config(self, config: dict[str, Any]) -> None:
        self.build(config["input_shape"], config["start"])


def test_a_model_is_made_again_with_what_its_init_takes(tmp_path: Path) -> None:
    model = _Plain()
    x = np.ones((1, 3), np.float32)
    expected = model(x)
    model.save(tmp_path / "plain.keras")
    found = tf.keras.models.load_model(tmp_path / "plain.keras", custom_objects={"_Plain": _Plain})
    np.testing.assert_array_equal(found(x), expected)


def test_build_finds_the_shape_beside_other_arguments(tmp_path: Path) -> None:
    layer = _Started()
    layer.build(input_shape=(None, 2), start="ones")
    model = tf.keras.Sequential([tf.keras.Input((2,)), layer])
    layer.w.assign([3.0, 4.0])
    model.save(tmp_path / "started.keras")
    found = tf.keras.models.load_model(tmp_path / "started.keras", custom_objects={"_Started": _Started})
    np.testing.assert_array_equal(found(np.ones((1, 2), np.float32)), [[3, 4]])
    assert found.layers[-1].start == "ones"


def test_a_variable_may_be_added_by_its_name() -> None:
    layer = tf.keras.layers.Layer()
    assert layer.add_variable("kernel", shape=(2, 3)).shape == (2, 3)
    assert layer.add_variable("bias", (3,)).name.endswith("bias:0")


def test_weights_of_a_model_that_was_not_called_are_none(tmp_path: Path) -> None:
    model = _Plain()
    model.save_weights(tmp_path / "easy")
    assert not model.built


def test_operations_of_a_model_in_an_h5_file(tmp_path: Path) -> None:
    inputs = [tf.keras.Input((3,)), tf.keras.Input((3,))]
    x = tf.keras.layers.Dense(3)(inputs[0] + inputs[1])
    model = tf.keras.Model(inputs, tf.nn.relu(x * 2.0 - inputs[1]) / tf.reduce_max(inputs[0]))
    model.save(str(tmp_path / "model.h5"))
    loaded = tf.keras.models.load_model(str(tmp_path / "model.h5"))
    arrays = list(np.random.default_rng(0).random((2, 4, 3), np.float32))
    np.testing.assert_array_equal(loaded.predict(arrays, verbose=0), model.predict(arrays, verbose=0))


def _input_and_output() -> tuple[Any, Any]:
    x = tf.keras.Input((3,))
    return x, tf.keras.layers.Dense(2)(x)


class _Fixed(tf.keras.Model):  # type: ignore[misc]  # likewise
    def __init__(self) -> None:
        super().__init__(*_input_and_output())


class _OfInputs(tf.keras.Model):  # type: ignore[misc]  # likewise
    def __init__(self, inputs: Any, outputs: Any, name: str | None = None) -> None:
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        self.scale = 2


@pytest.mark.parametrize("make", [_Fixed, lambda: _OfInputs(*_input_and_output())])
def test_models_of_inputs_and_outputs_are_cloned(make: Callable[[], Any]) -> None:
    model = make()
    found = tf.keras.models.clone_model(model)
    assert [each.shape for each in found.get_weights()] == [(3, 2), (2,)]
    assert isinstance(found, _OfInputs) == isinstance(model, _OfInputs)  # else of no own class


@pytest.mark.parametrize("file", ["model.keras", "model.h5"])
@pytest.mark.parametrize("trainable", [True, False])
def test_models_of_inputs_and_outputs_are_loaded(file: str, trainable: bool, tmp_path: Path) -> None:
    model = _OfInputs(*_input_and_output(), name="scaled")
    model.trainable = trainable
    model.save(str(tmp_path / file))
    found = tf.keras.models.load_model(str(tmp_path / file), custom_objects={"_OfInputs": _OfInputs})
    assert (type(found), found.name, found.scale) == (_OfInputs, "scaled", 2)
    assert len(found.trainable_weights) == (2 if trainable else 0)
    np.testing.assert_array_equal(found.get_weights()[0], model.get_weights()[0])


def test_the_decay_of_an_optimizer_of_keras_2_stays(tmp_path: Path) -> None:
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.save(str(tmp_path / "model.h5"), include_optimizer=True)
    own = {"name": "SGD", "learning_rate": 0.1, "decay": 0.5, "momentum": 0.0, "nesterov": False}
    of_keras_2 = {"is_legacy_optimizer": True, "jit_compile": False}
    with h5py.File(tmp_path / "model.h5", "r+") as file:
        config = json.loads(file.attrs["training_config"])
        config["optimizer_config"] = {"class_name": "Custom>SGD", "config": {**own, **of_keras_2}}
        file.attrs["training_config"] = json.dumps(config)
        del file["optimizer_weights"]

    optimizer = tf.keras.models.load_model(str(tmp_path / "model.h5")).optimizer
    variable = tf.Variable(1.0)
    for _ in range(3):
        optimizer.apply_gradients([(tf.constant(1.0), variable)])
    np.testing.assert_allclose(variable, 1 - 0.1 * (1 + 1 / 1.5 + 1 / 2), rtol=1e-6)


@tf.keras.utils.register_keras_serializable()
class _OwnSGD(tf.keras.optimizers.SGD):  # type: ignore[misc]  # likewise
    pass


@tf.keras.utils.register_keras_serializable()
class _OwnLoss(tf.keras.losses.Loss):  # type: ignore[misc]  # likewise
    def call(self, y_true: Any, y_pred: Any) -> Any:
        return tf.reduce_mean(tf.abs(y_true - y_pred), -1)


@tf.keras.utils.register_keras_serializable()
class _OwnMetric(tf.keras.metrics.Mean):  # type: ignore[misc]  # likewise
    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(y_true - y_pred)


def test_registered_classes_that_a_model_in_an_h5_file_was_compiled_with(tmp_path: Path) -> None:
    x, y = np.ones((4, 3), np.float32), np.ones((4, 1), np.float32)
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
    model.compile(_OwnSGD(0.1), _OwnLoss(), metrics=[_OwnMetric(name="own")])
    expected = model.evaluate(x, y, verbose=0)
    model.save(str(tmp_path / "model.h5"))
    found = tf.keras.models.load_model(str(tmp_path / "model.h5"))
    assert (type(found.optimizer), type(found.loss)) == (_OwnSGD, _OwnLoss)
    np.testing.assert_array_equal(found.evaluate(x, y, verbose=0), expected)


class GRUCell(tf.keras.layers.Layer):  # type: ignore[misc]  # likewise
    """A program's class, called as one of Keras is."""

    state_size = output_size = 2

    def call(self, x: Any, states: Any) -> tuple[Any, Any]:
        return x, states


@pytest.mark.parametrize("in_scope", [False, True])
def test_layers_in_others_are_the_programs_where_it_says_so(in_scope: bool) -> None:
    cell: dict[str, Any] = {"class_name": "GRUCell", "config": {}}
    rnn = {"class_name": "RNN", "config": {"cell": cell}}
    stacked = {
        "class_name": "RNN",
        "config": {"cell": {"class_name": "StackedRNNCells", "config": {"cells": [cell]}}},
    }
    own = {"GRUCell": GRUCell}
    with tf.keras.utils.custom_object_scope(own if in_scope else {}):
        given = {} if in_scope else {"custom_objects": own}
        layers = [
            tf.keras.layers.RNN.from_config({"cell": cell}, **given).cell,
            tf.keras.layers.RNN.from_config(stacked["config"], **given).cell.cells[0],
            tf.keras.layers.Bidirectional.from_config({"layer": rnn}, **given).backward_layer.cell,
            tf.keras.layers.deserialize(
                {"class_name": "TimeDistributed", "config": {"layer": cell}}, **given
            ).layer,
        ]
    assert [type(each) for each in layers] == [GRUCell] * 4
    keras_cell = {"class_name": "GRUCell", "config": {"units": 2}}
    assert isinstance(tf.keras.layers.RNN.from_config({"cell": keras_cell}).cell, tf.keras.layers.GRUCell)
