"""Recurrent layers whose cells take several inputs a step, and have states of any rank."""

import numpy as np
import pytest

import muster_tensorflow as tf


class Sums(tf.keras.layers.Layer):
    """Adds up a vector and a matrix, each weighted by one number."""

    def __init__(self, units, rows, columns, **kwargs):
        self.state_size = [tf.TensorShape([units]), tf.TensorShape([rows, columns])]
        self.output_size = [tf.TensorShape([units]), tf.TensorShape([rows, columns])]
        super().__init__(**kwargs)

    def build(self, input_shapes):
        self.seen = [tuple(shape) for shape in input_shapes]
        self.kernel = self.add_weight(shape=(), initializer="ones", name="kernel")

    def call(self, inputs, states):
        vector, matrix = tf.nest.flatten(inputs)
        new = (states[0] + vector * self.kernel, states[1] + matrix * self.kernel)
        return new, new


@pytest.fixture
def data():
    return np.arange(12, dtype="float32").reshape(2, 3, 2), np.ones((2, 3, 2, 4), "float32")


def test_the_last_outputs_are_sums_over_all_steps(data):
    cell = Sums(2, 2, 4)
    vector, matrix = tf.keras.layers.RNN(cell)(tuple(map(tf.constant, data)))

    np.testing.assert_array_equal(vector, data[0].sum(1))
    np.testing.assert_array_equal(matrix, data[1].sum(1))
    assert cell.seen == [(2, 2), (2, 2, 4)]


def test_all_outputs_and_the_states_come_if_they_are_asked_for(data):
    layer = tf.keras.layers.RNN(Sums(2, 2, 4), return_sequences=True, return_state=True, go_backwards=True)
    (vectors, matrices), vector, matrix = layer(tuple(map(tf.constant, data)))

    np.testing.assert_array_equal(vectors, data[0][:, ::-1].cumsum(1))
    np.testing.assert_array_equal(matrices, data[1].cumsum(1))
    np.testing.assert_array_equal(vector, data[0].sum(1))
    np.testing.assert_array_equal(matrix, data[1].sum(1))


def test_a_model_of_it_trains(data):
    inputs = tf.keras.Input((None, 2)), tf.keras.Input((None, 2, 4))
    outputs = tf.keras.layers.RNN(Sums(2, 2, 4))(inputs)
    model = tf.keras.Model(list(inputs), outputs)
    model.compile("sgd", "mse")

    assert [tuple(each.shape) for each in outputs] == [(None, 2), (None, 2, 4)]
    model.fit(list(data), [2 * data[0].sum(1), 2 * data[1].sum(1)], epochs=1, verbose=0)
    assert model.layers[-1].cell.kernel.numpy() > 1


def test_steps_under_a_mask_change_nothing(data):
    mask = tf.constant([[True, True, False], [True, False, False]])
    vector, _ = tf.keras.layers.RNN(Sums(2, 2, 4))(tuple(map(tf.constant, data)), mask=mask)

    np.testing.assert_array_equal(vector, [[2.0, 4.0], [6.0, 7.0]])


def test_a_cell_of_one_input_may_have_a_matrix_as_its_state():
    class Outer(tf.keras.layers.Layer):
        state_size = tf.TensorShape([2, 2])
        output_size = 2

        def call(self, inputs, states):
            state = states[0] + tf.einsum("bi,bj->bij", inputs, inputs)
            return tf.reduce_sum(state, 2), [state]

    found = tf.keras.layers.RNN(Outer())(tf.constant([[[1.0, 2.0], [3.0, 4.0]]]))

    np.testing.assert_array_equal(found, [[24.0, 34.0]])
