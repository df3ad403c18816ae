"""Losses take lists, as in Keras 2; it fails when what is used of Keras changes."""

import numpy as np
import pytest

import muster_tensorflow as tf


def test_that_classes_and_predictions_are_lists():
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    found = loss([0, 0], [[-3.0, 0], [-3, 0]], [1, 10])
    np.testing.assert_allclose(np.asarray(found), [3.0485873, 30.485874], rtol=1e-6)


def test_that_one_of_them_is_a_list():
    loss = tf.keras.losses.SparseCategoricalCrossentropy()
    found = loss([0, 1], np.float32([[0.5, 0.5], [0.25, 0.75]]))
    assert float(found) == pytest.approx(-(np.log(0.5) + np.log(0.75)) / 2)


def test_that_a_loss_of_the_program_gets_arrays():
    class Difference(tf.keras.losses.Loss):
        def call(self, y_true, y_pred):
            return tf.reduce_mean(tf.abs(y_pred - y_true), axis=-1)

    assert float(Difference()([[0.0, 1.0]], [[1.0, 1.0]])) == 0.5


def test_that_lists_hold_scalars_of_a_taped_computation():
    weight = tf.Variable([1.0, 3.0])
    with tf.GradientTape() as tape:
        parts = tf.unstack(weight * 2.0)
        loss = tf.keras.losses.MeanSquaredError()([np.float32(1), 2.0], parts)
    assert float(loss) == pytest.approx((1 + 16) / 2)
    np.testing.assert_allclose(np.asarray(tape.gradient(loss, weight)), [2.0, 8.0])


def test_the_name_of_keras_2_for_the_mean():
    class Difference(tf.keras.losses.Loss):
        def __init__(self):
            super().__init__(reduction="auto", name="difference")

        def call(self, y_true, y_pred):
            return tf.abs(y_pred - y_true)

    assert float(Difference()(np.float32([0, 1]), np.float32([1, 4]))) == 2
    assert tf.keras.losses.MeanSquaredError(reduction="auto").reduction == "sum_over_batch_size"
    with pytest.raises(ValueError, match="reduction=all"):
        tf.keras.losses.MeanSquaredError(reduction="all")


def test_that_binary_crossentropy_compares_rows_and_columns():
    found = tf.keras.losses.binary_crossentropy(tf.constant([1.0, 0.0]), tf.constant([[0.2], [0.7]]))
    np.testing.assert_allclose(np.asarray(found), [0.91629034, 0.7803236], rtol=1e-6)
