"""Layers that set the kernels of Keras' layers, as with Keras 2."""

from typing import Any

import numpy as np

import muster_tensorflow as tf


class _MaskedConv(tf.keras.layers.Conv2D):  # type: ignore[misc]  # the class is made while the program runs
    def build(self, input_shape: Any) -> None:
        self.kernel = self.add_weight(
            name="kernel", shape=(*self.kernel_size, input_shape[-1], self.filters), initializer="ones"
        )
        self.bias = self.add_weight(name="bias", shape=(self.filters,), initializer="zeros")
        self.mask = tf.cast(np.arange(self.kernel.shape[0]) < 1, tf.float32)[:, None, None, None]
        self.built = True

    def call(self, x: Any) -> Any:
        return tf.nn.conv2d(x, self.kernel * self.mask, self.strides, "VALID") + self.bias


def test_build_of_a_program_sets_the_kernel() -> None:
    layer = _MaskedConv(1, 2)
    x = np.arange(9, dtype=np.float32).reshape(1, 3, 3, 1)
    np.testing.assert_array_equal(np.asarray(layer(x))[0, :, :, 0], [[1, 3], [7, 9]])
    assert [each.name.rpartition("/")[2] for each in layer.trainable_variables] == ["kernel:0", "bias:0"]


def test_a_table_is_set_to_that_of_another_layer() -> None:
    class Tied(tf.keras.layers.Embedding):  # type: ignore[misc]  # likewise
        def build(self, input_shape: Any) -> None:
            self.embeddings = table
            self.built = True

    table = tf.Variable([[1.0], [2.0]])
    np.testing.assert_array_equal(Tied(2, 1)(np.array([1, 0])), [[2], [1]])


def test_a_network_computes_the_kernel_of_another() -> None:
    main, hyper = tf.keras.layers.Dense(1), tf.keras.layers.Dense(2, kernel_initializer="ones")
    main.built = True

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            main.kernel = tf.reshape(hyper(x), (2, 1))
            main.bias = tf.zeros((1,))
            loss = tf.reduce_sum(main(x))
        return loss, tape.gradient(loss, hyper.trainable_variables)

    loss, (kernel, bias) = step(tf.constant([[1.0, 2.0]]))
    assert float(loss) == 9
    np.testing.assert_array_equal(kernel, [[1, 2], [2, 4]])
    np.testing.assert_array_equal(bias, [1, 2])
