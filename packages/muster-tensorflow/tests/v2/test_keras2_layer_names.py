"""Keras 2's names of layers and models, and losses that are functions."""

from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf

keras = tf.keras


def test_a_layer_says_how_it_is_connected() -> None:
    first, second = keras.Input([3], name="first"), keras.Input([3], name="second")
    layer = keras.layers.Dense(2)
    outputs = [layer(first), layer(second)]
    assert layer.get_input_at(1) is second
    assert layer.get_output_at(0) is outputs[0]
    assert layer.get_input_shape_at(0) == (None, 3)
    assert layer.get_output_shape_at(-1) == (None, 2)
    assert len(layer.inbound_nodes) == 2
    assert len(keras.layers.add([first, second])._keras_history.operation.get_input_at(0)) == 2
    with pytest.raises(ValueError, match="was called 2 times"):
        layer.get_output_at(2)
    model = keras.Model([first, second], outputs)
    assert model.input_names == ["first", "second"]
    assert layer.outbound_nodes == []
    assert model.distribute_strategy.num_replicas_in_sync == 1


def test_a_layer_has_what_keras_2_asked_it_for() -> None:
    layer = keras.layers.Dense(2, name="dense")
    assert (layer.stateful, layer.dynamic, layer.updates, layer.input_mask) == (False, False, [], None)
    assert keras.layers.LSTM(2, stateful=True).stateful
    layer.add_update([])
    assert layer.name_scope() == "dense/"
    assert layer.compute_output_signature(tf.TensorSpec([4, 3])) == tf.TensorSpec([4, 2])

    class Own(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.updates = [1]
            self.input_names = ["own"]

    assert (Own().updates, Own().input_names) == ([1], ["own"])


def test_losses_may_be_functions() -> None:
    class Penalised(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.scale = self.add_weight(name="scale", shape=[], initializer="ones")
            self.add_loss(lambda: 3.0 * self.scale)

        def call(self, inputs: Any) -> Any:
            return inputs * self.scale

    layer = Penalised()
    model = keras.Sequential([layer])
    model.compile(keras.optimizers.SGD(0.1), keras.losses.MeanSquaredError())
    assert [float(each) for each in layer.losses] == [3.0]
    history = model.fit(np.ones([2, 1]), np.ones([2, 1]), verbose=0)
    np.testing.assert_allclose(history.history["loss"], [3.0])
    np.testing.assert_allclose(layer.scale, 0.7, rtol=1e-6)


def test_a_counter_of_saves_is_read_as_a_variable(tmp_path: Any) -> None:
    checkpoint = tf.train.Checkpoint(value=tf.Variable(1.0))
    assert checkpoint.save_counter.numpy() == 0
    checkpoint.save(tmp_path / "kept")
    assert (int(checkpoint.save_counter), checkpoint.save_counter.numpy()) == (1, 1)


def test_a_layer_has_the_name_that_a_program_gives_it():
    def part():
        return tf.keras.Sequential([tf.keras.layers.Dense(1, name="d", input_shape=(2,))], name="part")

    parts = [part(), part()]
    for number, each in enumerate(parts):
        each._name = f"{each._name}_{number}"
        for layer in each.layers:
            layer._name = layer.name + "_renamed"
    inputs = tf.keras.Input((2,))
    model = tf.keras.Model(inputs, tf.keras.layers.average([each(inputs) for each in parts]))
    assert [layer.name for layer in model.layers[1:3]] == ["part_0", "part_1"]
    assert model.get_layer("part_1").get_layer("d_renamed").kernel.shape == (2, 1)
