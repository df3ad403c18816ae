"""Operations on the symbolic tensors of functional models, on variables, and in layers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import muster_tensorflow as tf
from muster._keras import keras

ROWS = np.random.default_rng(0).normal(size=(5, 4, 3)).astype(np.float32)


def unpacked(x: Any) -> Any:
    rows, steps, width = tf.shape(x)
    return tf.reshape(x, tf.stack([rows * steps, width]))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "relu": lambda x: tf.nn.relu(x),
    "reduce_mean": lambda x: tf.reduce_mean(x, axis=[1, 2]),
    "concat": lambda x: tf.concat([x, tf.abs(x)], -1),
    "matmul": lambda x: tf.matmul(x, x, transpose_b=True),
    "cast": lambda x: tf.cast(x > 0, tf.int32),
    "einsum": lambda x: tf.einsum("bnd,bmd->bnm", x, x),
    "gather": lambda x: tf.gather(x, [0, 1], axis=1),
    "split": lambda x: tf.split(x, 3, axis=-1)[1],
    "constant": lambda x: tf.constant(2.0) * x + tf.sqrt([1.0, 2.0, 3.0]),
    "a size": lambda x: tf.reshape(x, (tf.shape(x)[0], -1)),
    "None": lambda x: tf.reshape(x, (None, 12)),
    "zeros": lambda x: tf.zeros((tf.shape(x)[0], 2)),
    "fill": lambda x: tf.fill([tf.shape(x)[0], 2], 7.0),
    "computed sizes": lambda x: tf.tile(tf.ones((1, 2)), [2 * tf.shape(x)[0] // 1 + 1, 1]),
    "size as a number": lambda x: tf.reduce_sum(x) / tf.cast(tf.shape(x)[0], tf.float32),
    "unpacked sizes": unpacked,
    "joined sizes": lambda x: tf.broadcast_to(x[:, :1], tf.concat([tf.shape(x)[:1], [7, 3]], 0)),
    "range of a known size": lambda x: tf.range(tf.shape(x)[1])[None] + tf.cast(x[:, :, 0], tf.int32),
    "range of a size": lambda x: tf.range(tf.shape(x)[0]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functional_models_compute_what_arrays_give(name: str) -> None:
    function = FUNCTIONS[name]
    inputs = keras.Input((4, 3))
    outputs = function(inputs)
    model = keras.Model(inputs, outputs)
    expected = np.asarray(function(ROWS))
    assert len(outputs.shape) == expected.ndim
    assert str(outputs.dtype) == str(expected.dtype)
    np.testing.assert_allclose(model(ROWS), expected, rtol=1e-5)
    again = keras.Model.from_config(model.get_config())
    np.testing.assert_allclose(again(ROWS), expected, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
def test_a_saved_model_keeps_its_operations(tmp_path: Any) -> None:
    inputs = keras.Input((4, 3))
    outputs = tf.nn.softmax(tf.reduce_mean(keras.layers.Dense(2)(inputs), axis=1))
    model = keras.Model(inputs, outputs)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(ROWS), model(ROWS), rtol=1e-6)


def test_a_model_may_be_called_in_another() -> None:
    inputs = keras.Input((4, 3))
    inner = keras.Model(inputs, tf.reshape(inputs, (tf.shape(inputs)[0], 12)))
    more = keras.Input((4, 3))
    outer = keras.Model(more, tf.nn.relu(inner(more)))
    np.testing.assert_array_equal(outer(ROWS), np.maximum(ROWS.reshape(5, 12), 0))


def test_known_sizes_are_numbers() -> None:
    inputs = keras.Input((4, 3), batch_size=2)
    np.testing.assert_array_equal(tf.shape(inputs), [2, 4, 3])
    assert tf.shape(keras.Input((4, 3)))[1] == 4
    assert tf.rank(inputs) == 3


def test_what_is_wrong_is_said_of_symbolic_tensors_too() -> None:
    with pytest.raises(ValueError, match="class probabilities|must have one shape"):
        tf.nn.softmax_cross_entropy_with_logits(keras.Input((3,)), keras.Input((4,)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: tf.matmul(x, w),
        lambda x, w: tf.nn.relu(x @ w),
        lambda x, w: tf.concat([tf.reshape(x, (-1, 3)), tf.transpose(w)], 0),
        lambda x, w: x[:, 0] * tf.reduce_sum(w) + tf.sqrt(2.0) * w[:, 0],
        lambda x, w: tf.zeros((tf.shape(x)[0], 3)) + tf.norm(w),
    ],
)
def test_layers_use_their_variables(function: Callable[[Any, Any], Any]) -> None:
    class Layer(keras.layers.Layer):  # type: ignore[misc]  # keras is untyped
        def build(self, shape: Any) -> None:
            self.w = self.add_weight(shape=(3, 2))

        def call(self, x: Any) -> Any:
            return function(x, self.w)

    layer = Layer()
    inputs = keras.Input((4, 3))
    model = keras.Model(inputs, layer(inputs))
    expected = np.asarray(function(ROWS, layer.w))
    np.testing.assert_allclose(model.predict(ROWS, verbose=0), expected, rtol=1e-5)
    assert model.output.shape[1:] == expected.shape[1:]


def test_arrays_before_variables_leave_the_operation_to_them() -> None:
    variable = keras.Variable([1.0, 2.0])

    @tf.function
    def double() -> Any:
        return np.float32(2) * variable + np.ones(2, np.float32)

    np.testing.assert_array_equal(double(), [3, 5])


def test_sizes_that_are_cast_stay_sizes() -> None:
    class Lengths(keras.layers.Layer):
        def call(self, rows: Any) -> Any:
            count = tf.cast(tf.shape(rows)[0], dtype="int64")
            steps = tf.cast(tf.shape(rows)[1], dtype="int64")
            return steps * tf.ones(shape=(count, 1), dtype="int64")

    inputs = keras.Input((None, 3))
    outputs = Lengths()(inputs)
    assert outputs.shape == (None, 1)
    np.testing.assert_array_equal(keras.Model(inputs, outputs)(ROWS), [[4]] * 5)
