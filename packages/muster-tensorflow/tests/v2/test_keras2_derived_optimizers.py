"""Optimizers that programs derive from Keras' base class of TensorFlow 2.15, whose numbers these are."""

import numpy as np
import pytest

import muster_tensorflow as tf


class Signed(tf.keras.optimizers.Optimizer):
    """Steps by the sign of a mean of gradients."""

    def __init__(self, learning_rate=0.001, beta=0.9, name="Signed", **kwargs):
        super().__init__(name=name, **kwargs)
        self._learning_rate = self._build_learning_rate(learning_rate)
        self.beta = beta

    def build(self, var_list):
        super().build(var_list)
        if hasattr(self, "_built") and self._built:
            return
        self._built = True
        self._means, self._counts = [], []
        for var in var_list:
            self._means.append(self.add_variable_from_reference(model_variable=var, variable_name="m"))
            self._counts.append(self.add_variable_from_reference(var, "count", shape=[], initial_value=3.0))

    def update_step(self, gradient, variable):
        rate = tf.cast(self.learning_rate, variable.dtype)
        index = self._index_dict[self._var_key(variable)]
        mean, count = self._means[index], self._counts[index]
        count.assign_add(1.0)
        mean.assign(self.beta * mean + (1.0 - self.beta) * gradient)
        variable.assign_sub(rate * tf.sign(mean) / count)

    def get_config(self):
        rate = self._serialize_hyperparameter(self._learning_rate)
        return super().get_config() | {"learning_rate": rate, "beta": self.beta}


def trained(optimizer):
    w, b = tf.Variable([1.0, -2.0], name="w"), tf.Variable(0.5, name="bias")

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(x * w * w) + 3.0 * b
        optimizer.apply_gradients(zip(tape.gradient(loss, [w, b]), [w, b], strict=True))

    for x in (1.0, -5.5, 2.0):
        step(tf.constant(x))
    return [*w.numpy(), b.numpy()]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: Signed(0.1), [1.0116667, -2.0116668, 0.4383333]),
        (
            lambda: Signed(tf.keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5), jit_compile=False),
            [0.9891667, -1.9891667, 0.46083334],
        ),
        (
            lambda: Signed.from_config(Signed(0.1, 0.5, clipnorm=1.0).get_config()),
            [0.97833335, -1.9783334, 0.4383333],
        ),
    ],
)
def test_steps_are_those_of_the_program(make, expected):
    np.testing.assert_allclose(trained(make()), expected, rtol=1e-5)


def test_fit_takes_it_and_its_rate_can_be_set():
    x, y = np.ones((8, 2), np.float32), np.full((8, 1), 30.0, np.float32)
    dense = tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(2,))
    model = tf.keras.Sequential([dense])
    model.compile(Signed(0.1), "mse")
    model.fit(x, y, epochs=3, batch_size=8, verbose=0)
    np.testing.assert_allclose(np.ravel(dense.kernel), [1.0616666] * 2, rtol=1e-5)
    model.optimizer.learning_rate = 1.0
    model.fit(x, y, epochs=1, batch_size=8, verbose=0)
    np.testing.assert_allclose(np.ravel(dense.kernel), [1.2045238] * 2, rtol=1e-5)


def test_a_class_with_an_apply_gradients_of_its_own_uses_it_in_fit():
    class Twice(tf.keras.optimizers.SGD):
        def apply_gradients(self, grads_and_vars, *args, **kwargs):
            return super().apply_gradients([(2.0 * g, v) for g, v in grads_and_vars], *args, **kwargs)

    x, y = np.ones((8, 2), np.float32), np.full((8, 1), 30.0, np.float32)
    dense = tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(2,))
    model = tf.keras.Sequential([dense])
    model.compile(Twice(0.01), "mse")
    model.fit(x, y, epochs=1, batch_size=8, verbose=0)
    np.testing.assert_allclose(np.ravel(dense.kernel), [2.12, 2.12], rtol=1e-5)
