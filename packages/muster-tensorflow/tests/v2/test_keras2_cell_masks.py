"""Cells with dropout that a model calls itself, and that each trace lets draw anew."""

import numpy as np

import muster_tensorflow as tf


class Cells(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.cell = tf.keras.layers.SimpleRNNCell(3, dropout=0.5, recurrent_dropout=0.5)

    def call(self, x, training=None):
        state = tf.ones((x.shape[0], 3))
        for each in tf.unstack(x, axis=1):
            out, (state,) = self.cell(each, [state], training)
        return out


def test_cells_without_a_layer_draw_anew_in_each_trace():
    model, x = Cells(), np.ones((4, 2, 3), np.float32)
    step = tf.function(lambda x: model(x, training=True))
    assert not np.array_equal(step(x), step(x))
    # In eager code the mask stays.
    np.testing.assert_array_equal(model(x, training=True), model(x, training=True))
    assert step(x[:2]).shape == (2, 3)
