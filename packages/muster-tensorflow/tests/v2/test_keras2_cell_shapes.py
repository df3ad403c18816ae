"""Recurrent layers whose cells have states with several axes."""

from typing import Any

import keras
import numpy as np
import pytest

import muster_tensorflow as tf


class Adding(keras.layers.Layer):
    """A cell that adds up what it gets; its output is the sum so far."""

    def __init__(self, size: Any, several: bool = False) -> None:
        super().__init__()
        self.state_size = [tf.TensorShape(size), 2] if several else tf.TensorShape(size)
        self.output_size = tf.TensorShape(size)

    def call(self, inputs: Any, states: Any) -> Any:
        return states[0] + inputs, [states[0] + inputs, *(each + 1.0 for each in states[1:])]


def test_a_shape_is_that_of_one_state() -> None:
    sequences = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    output, state = keras.layers.RNN(Adding([4, 5]), return_state=True)(sequences)
    np.testing.assert_array_equal(output, sequences.sum(1))
    np.testing.assert_array_equal(state, output)


def test_a_list_has_one_entry_for_each_state() -> None:
    inputs = keras.Input((3, 4, 5))
    layer = keras.layers.RNN(Adding([4, 5], several=True), return_sequences=True, return_state=True)
    outputs = layer(inputs)
    assert [tuple(each.shape) for each in outputs] == [(None, 3, 4, 5), (None, 4, 5), (None, 2)]
    sums, last, counts = keras.Model(inputs, outputs)(np.ones((2, 3, 4, 5), np.float32))
    assert np.asarray(sums)[0, :, 0, 0].tolist() == [1.0, 2.0, 3.0]
    assert np.asarray(last)[1, 3, 4] == 3.0
    assert np.asarray(counts).tolist() == [[3.0, 3.0]] * 2


def test_the_only_state_of_a_stacked_cell_is_no_list() -> None:
    stacked = tf.keras.layers.StackedRNNCells([tf.keras.layers.GRUCell(2), tf.keras.layers.LSTMCell(3)])
    first, second = stacked.get_initial_state(batch_size=4)
    assert (first.shape, [each.shape for each in second]) == ((4, 2), [(4, 3), (4, 3)])
    _, (first, second) = stacked(np.ones((4, 1), np.float32), [first, second])
    assert (first.shape, [each.shape for each in second]) == ((4, 2), [(4, 3), (4, 3)])


@pytest.mark.parametrize("name", ["GRUCell", "SimpleRNNCell"])
def test_the_only_state_of_a_cell_is_no_list(name: str) -> None:
    cell = getattr(tf.keras.layers, name)(3)
    state = cell.get_initial_state(batch_size=2, dtype="float16")
    assert (state.shape, str(state.dtype)) == ((2, 3), "float16")
    output, [after] = cell(np.ones((2, 4), np.float32), [cell.get_initial_state(batch_size=2)])
    np.testing.assert_array_equal(output, after)
    _, after = cell(np.ones((2, 4), np.float32), cell.get_initial_state(batch_size=2))
    np.testing.assert_array_equal(output, after)


def test_stacked_cells_keep_their_output_at_steps_that_are_masked() -> None:
    cells = [tf.keras.layers.GRUCell(3), tf.keras.layers.GRUCell(2)]
    x = np.arange(12, dtype=np.float32).reshape(1, 4, 3)
    layer = tf.keras.layers.RNN(cells)
    found = layer(x, mask=np.array([[True, True, False, False]]))
    np.testing.assert_allclose(found, layer(x[:, :2]), rtol=1e-6)
