"""``tf.while_loop`` in compiled functions: gradients, arrays of elements, and shapes that grow."""

import numpy as np
import pytest

import muster_tensorflow as tf


def power(x, times, **options):
    """Return x to the power of times + 1."""
    return tf.while_loop(
        lambda i, _: i < times, lambda i, y: (i + 1, y * x), [tf.constant(0), x * 1.0], **options
    )


def slope_of(x, times, **options):
    with tf.GradientTape() as tape:
        y = power(x, times, **options)[1]
    return tape.gradient(y, x)


def test_a_loop_that_counts_known_numbers_has_gradients(caplog):
    x = tf.Variable(2.0)
    assert float(tf.function(lambda: slope_of(x, 3))()) == 32
    assert float(tf.function(lambda: slope_of(x, 9, maximum_iterations=3))()) == 32
    count, y = tf.function(lambda: power(x, 3))()
    assert (int(count), float(y)) == (3, 16)
    assert "uncompiled" not in caplog.text


def test_a_function_with_another_loop_runs_uncompiled_for_its_gradients(caplog):
    x = tf.Variable(2.0)
    compiled = tf.function(lambda times: power(x, times)[1])
    assert float(compiled(tf.constant(3))) == 16
    assert "uncompiled" not in caplog.text
    slope = tf.function(lambda times: slope_of(x, times))
    assert [float(slope(tf.constant(each))) for each in (3, 1)] == [32, 4]
    assert (
        "runs uncompiled, and slower, because of a tf.while_loop that values of the function end"
        in caplog.text
    )


def test_shapes_may_grow(caplog):
    @tf.function
    def grown(times):
        return tf.while_loop(
            lambda i, _: i < times,
            lambda i, seen: (i + 1, tf.concat([seen, [i]], 0)),
            [0, tf.zeros([1], tf.int32)],
            shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
        )[1]

    assert grown(tf.constant(3)).numpy().tolist() == [0, 0, 1, 2]
    assert "runs uncompiled" in caplog.text


def test_a_mistake_in_a_function_with_a_loop_is_the_users():
    @tf.function
    def wrong(times):
        power(tf.constant(1.0), times)
        return tf.ones(2) + tf.ones(3)

    with pytest.raises(ValueError, match="could not be broadcast"):
        wrong(tf.constant(2))


def test_the_number_of_rounds_may_depend_on_several_values():
    x = tf.Variable(3.0)

    @tf.function
    def slope():
        with tf.GradientTape() as tape:
            _, _, y = tf.while_loop(
                lambda i, limit, _: i < limit, lambda i, limit, y: (i + 2, limit - 1, y * x), [0, 6, x * 1.0]
            )
        return tape.gradient(y, x)

    assert float(slope()) == 3 * 3.0**2  # rounds: 0 < 6, 2 < 5, not 4 < 4


class Recurrent(tf.keras.layers.Layer):
    """Fills an array, whose elements' shape it does not say, in a loop along an axis."""

    def build(self, shape):
        self.kernel = self.add_weight(name="kernel", shape=(shape[-1], shape[-1]), initializer="identity")

    def call(self, x):
        length = tf.shape(x)[1]

        def body(i, state, states):
            state = state @ self.kernel + x[:, i]
            return i + 1, state, states.write(i, state)

        states = tf.while_loop(
            lambda i, *_: i < length,
            body,
            [tf.constant(0), tf.zeros_like(x[:, 0]), tf.TensorArray(tf.float32, size=length)],
        )[2]
        return tf.transpose(states.stack(), [1, 0, 2])


def test_a_layer_with_a_loop_trains():
    x = np.random.default_rng(0).normal(size=(8, 3, 2)).astype("float32")
    model = tf.keras.Sequential([tf.keras.Input((3, 2)), Recurrent()])
    np.testing.assert_allclose(model.predict(x, verbose=0), x.cumsum(1), rtol=1e-4, atol=1e-5)
    model.compile(tf.keras.optimizers.SGD(0.05), "mse")
    losses = model.fit(x, x, epochs=3, verbose=0).history["loss"]
    assert losses[2] < losses[1] < losses[0]
