"""Object-based checkpoints that TensorFlow wrote go into Keras models and optimizers."""

from pathlib import Path

import numpy as np
import pytest

import muster_tensorflow as tf
from muster._errors import CheckpointMismatchError
from muster._keras import keras
from muster.checkpoint.tensorflow import load_weights
from muster.checkpoint.tensorflow._objects import SavedObject, find_variables, parse_graph
from muster.checkpoint.tensorflow._varints import FormatError
from tensorflow_checkpoints import recorded, value_of


def the_model(units: int = 4) -> keras.Model:
    """The model that wrote them."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((3,)),
            layers.Dense(units, activation="relu"),
            layers.BatchNormalization(),
            layers.Dense(2),
        ]
    )


@pytest.mark.parametrize("name", ["keras_save_weights", "saved_model_variables"])
def test_weights_give_tensorflows_outputs(name: str) -> None:
    prefix, said = recorded(name)
    model = the_model()
    load_weights(model, str(prefix))
    np.testing.assert_allclose(model(np.float32(said["inputs"])), said["outputs"], atol=1e-5)


@pytest.mark.parametrize("name", ["keras_save_weights", "saved_model_variables"])
def test_layers_that_draw_random_numbers_have_no_weights_there(name: str) -> None:
    prefix, said = recorded(name)
    first, *others = the_model().layers
    model = keras.Sequential([first, keras.layers.Dropout(0.5), *others])
    load_weights(model, str(prefix))
    np.testing.assert_allclose(model(np.float32(said["inputs"])), said["outputs"], atol=1e-5)


def test_a_checkpoint_of_objects_is_restored_into_them() -> None:
    prefix, said = recorded("object_based")
    model, optimizer, step = the_model(), keras.optimizers.Adam(), tf.Variable(0, dtype=tf.int32)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, step=step)
    checkpoint.restore(prefix).assert_existing_objects_matched()
    np.testing.assert_allclose(model(np.float32(said["inputs"])), said["outputs"], atol=1e-5)
    tensors = {name: value_of(each) for name, each in said["variables"].items()}
    for key, value in (
        ("optimizer/_iterations", optimizer.iterations),
        ("optimizer/_learning_rate", optimizer.learning_rate),
        ("optimizer/_variables/1", optimizer._momentums[0]),
        ("optimizer/_variables/2", optimizer._velocities[0]),
        ("optimizer/_variables/11", optimizer._momentums[5]),
        ("step", step),
    ):
        np.testing.assert_array_equal(value, tensors[f"{key}/.ATTRIBUTES/VARIABLE_VALUE"])
    assert checkpoint.save_counter == tensors["save_counter/.ATTRIBUTES/VARIABLE_VALUE"]


def test_a_manager_goes_on_from_tensorflows_directory(tmp_path: Path) -> None:
    prefix, said = recorded("object_based")
    for path in prefix.parent.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    model = the_model()
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=model), tmp_path, max_to_keep=2)
    assert manager.restore_or_initialize() == str(tmp_path / "ckpt-1")
    np.testing.assert_allclose(model(np.float32(said["inputs"])), said["outputs"], atol=1e-5)
    assert manager.save() == manager.latest_checkpoint == str(tmp_path / "ckpt-2")


class Subclassed(keras.Model):
    """Has its layers as attributes, which TensorFlow then names them by."""

    def __init__(self) -> None:
        super().__init__()
        self.first = keras.layers.Dense(2)
        self.rest = [keras.layers.Dense(3)]

    def call(self, inputs):  # type: ignore[no-untyped-def]
        return self.rest[0](self.first(inputs))


def test_attributes_and_lists_are_followed() -> None:
    model = Subclassed()
    model(np.zeros((1, 4), np.float32))
    nodes = [
        SavedObject({"first": 1, "rest": 4, "root": 0, "gone": 1}, None),
        SavedObject({"kernel": 2, "bias": 3, "name": 2}, None),
        SavedObject({}, "first/kernel"),
        SavedObject({}, "first/bias"),
        SavedObject({"0": 5, "7": 5}, None),
        SavedObject({"kernel": 6}, None),
        SavedObject({}, "rest/0/kernel"),
    ]
    found = {key: variable for variable, key in find_variables(nodes, model)}
    assert found.keys() == {"first/kernel", "first/bias", "rest/0/kernel"}
    assert found["first/bias"] is model.first.bias
    assert found["rest/0/kernel"] is model.rest[0].kernel


def test_another_model_is_refused_and_left_as_it_was() -> None:
    prefix, _ = recorded("object_based")
    wider = the_model(units=5)
    before = [np.array(each.value) for each in wider.weights]
    with pytest.raises(
        CheckpointMismatchError, match=r"kernel.* has the shape \(3, 4\) there, and .*\(3, 5\)"
    ):
        tf.train.Checkpoint(model=wider).restore(prefix)
    deeper = keras.Sequential([*the_model().layers, keras.layers.Dense(2, name="more")])
    deeper.build((None, 3))
    with pytest.raises(CheckpointMismatchError, match=r"it lacks .*more/kernel, .*more/bias"):
        tf.train.Checkpoint(model=deeper).restore(prefix)
    for one, two in zip(before, wider.weights, strict=True):
        np.testing.assert_array_equal(one, two.value)


def test_what_cannot_be_restored_says_what_to_do() -> None:
    prefix, _ = recorded("object_based")
    unbuilt = keras.Sequential([keras.layers.Dense(4)])
    with pytest.raises(CheckpointMismatchError, match="build it first"):
        tf.train.Checkpoint(model=unbuilt).restore(prefix)
    with pytest.raises(CheckpointMismatchError, match="build it first"):
        load_weights(unbuilt, str(prefix))
    named, _ = recorded("custom_model_fn")
    with pytest.raises(CheckpointMismatchError, match="is a checkpoint of names"):
        load_weights(the_model(), str(named))


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\x04\x0a\x02\x08\x07"])
def test_a_damaged_graph_is_an_error(data: bytes) -> None:
    with pytest.raises(FormatError, match="graph of objects"):
        parse_graph(data)


def test_variables_are_restored_by_the_names_that_a_saver_has_saved(tmp_path):
    a, b = tf.Variable(1.0, name="a"), tf.Variable([2.0, 3.0], name="scope/b")
    path = tf.compat.v1.train.Saver([a, b]).save(None, str(tmp_path / "model"))
    with tf.name_scope("scope"):
        other = tf.Variable([0.0, 0.0], name="b")
    checkpoint = tf.train.Checkpoint(variables=[other, tf.Variable(0.0, name="a")])
    checkpoint.restore(path)
    assert other.numpy().tolist() == [2, 3]
    assert float(checkpoint.variables[1]) == 1
    with pytest.raises(CheckpointMismatchError):
        tf.train.Checkpoint(c=tf.Variable(0.0, name="c")).restore(path)
