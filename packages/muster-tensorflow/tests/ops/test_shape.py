"""TensorFlow's operations that make arrays, or change their shape."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster_tensorflow as tf
from muster import TraceError
from muster.distribute import function
from muster.program import Output
from muster.program.trace._program import Program


def test_ranges_have_a_fixed_length():
    with pytest.raises(TraceError, match="Give the function a Python int"):
        function(lambda steps: tf.range(steps))(tf.convert_to_tensor(3))


def test_a_tf_function_with_a_range_of_a_tensor_runs_uncompiled(caplog):
    assert tf.function(lambda steps: tf.range(steps) * 2)(tf.convert_to_tensor(3)).tolist() == [0, 2, 4]
    assert "runs uncompiled, and slower, because Python needs the value of a tensor" in caplog.text


def test_numbers_of_python_have_tensorflows_types() -> None:
    assert tf.constant(1).dtype == tf.int32
    assert tf.constant([1.0, 2.0]).dtype == tf.float32
    assert tf.constant(2**40).dtype == tf.int64
    assert tf.constant(3, tf.float64, shape=[2]).tolist() == [3.0, 3.0]
    assert tf.range(3).tolist() == [0, 1, 2]
    assert tf.fill([2], 1.5).tolist() == [1.5, 1.5]
    assert tf.shape(np.zeros((2, 3))).tolist() == [2, 3]
    assert (tf.size([1, 2, 3]), tf.rank([1, 2, 3])) == (3, 1)
    assert tf.zeros([2]).dtype == tf.ones(2).dtype == tf.eye(2).dtype == tf.float32


def test_a_constant_takes_the_shape_that_it_is_given() -> None:
    assert tf.constant([1, 2, 3, 4], shape=[2, 2]).tolist() == [[1, 2], [3, 4]]
    assert tf.constant([5], shape=(2, 1)).tolist() == [[5], [5]]
    with pytest.raises(TypeError, match="cannot be made of 3 elements"):
        tf.constant([1, 2, 3], shape=[2, 3])


def test_axes_of_free_size_count_as_one() -> None:
    (shape,) = [jax.export.symbolic_args_specs(np.zeros((2, 1, 3)), "b, n, 3").shape]
    exported = jax.export.export(jax.jit(lambda x: tf.squeeze(x, axis=-2)))(jax.ShapeDtypeStruct(shape, "f4"))
    x = np.arange(6, dtype=np.float32).reshape(2, 1, 3)
    np.testing.assert_array_equal(exported.call(x), x[:, 0])
    masked = jax.jit(lambda x: tf.sequence_mask(tf.constant([0, 2]), tf.shape(x)[1]))
    mask = jax.export.export(masked)(jax.ShapeDtypeStruct(shape, "f4")).call(np.zeros((2, 3, 3), "f4"))
    assert mask.tolist() == [[False, False, False], [True, True, False]]


def test_one_hot_of_what_is_out_of_range_is_off() -> None:
    assert tf.one_hot([-1, 1, 2], 2, on_value=5, off_value=1).tolist() == [[1, 1], [1, 5], [1, 1]]
    assert tf.one_hot([0, 1], 3, axis=0).shape == (3, 2)


def test_identity_names_a_value_of_the_step() -> None:
    def step(x: Any) -> tuple[dict[str, Any], None]:
        tf.identity(x * 2, name="twice")
        tf.summary.scalar("half", x / 2)
        return {}, None

    program = Program(step, jnp.float32(3.0))
    _, outputs = program.step(program.initial, jnp.float32(3.0))
    assert (float(outputs["twice"]), float(outputs["half"])) == (6.0, 1.5)
    assert program.summaries == {"half": Output("half")}


def test_identity_with_a_name_means_nothing_in_an_input_function() -> None:
    data = tf.data.Dataset.from_tensor_slices(np.eye(2)).map(lambda row: tf.identity(row, name="row"))
    assert (next(iter(data)) == [1, 0]).all()


def test_eager_arrays_that_grow_compile_nothing(compilations: list[str]) -> None:
    grown: Any = tf.zeros([0, 3])
    for length in range(1, 4):
        grown = tf.concat([grown, tf.constant(np.full((length, 3), length, np.float32))], axis=0)
        assert isinstance(tf.stack([grown, grown]), jax.Array)
    assert compilations == []
    assert isinstance(grown, jax.Array)
    assert grown[:, 0].tolist() == [1, 2, 2, 3, 3, 3]


def test_what_is_concatenated_under_a_tape_has_gradients() -> None:
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.concat([x, 3 * x], 0) * tf.stack([x, x])[0, 0])
    assert tape.gradient(y, x).tolist() == [16, 4]


def test_a_constant_does_not_change_with_the_array_it_was_made_of() -> None:
    array = np.zeros(1024, np.float32)
    constant = tf.constant(array)
    array[:] = 1
    assert float(tf.reduce_sum(constant)) == 0


def test_a_single_array_is_not_concatenated() -> None:
    array = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    for axis in (0, 1):
        assert tf.concat(array, axis).numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert tf.concat(np.ones((2, 1, 3)), 0).shape == (2, 1, 3)
    assert tf.concat([tf.constant(5.0)], axis=1).shape == ()


def test_arrays_of_several_dtypes_are_concatenated_as_jax_does() -> None:
    assert tf.concat([tf.constant([1]), tf.constant([1.5])], 0).dtype == np.float32


def test_arrays_of_functions_of_datasets_that_run_in_python():
    def checked(x):
        x.shape.assert_is_compatible_with([None, 3])
        assert x.get_shape().as_list() == [2, 3]
        x += 1
        return x

    drawn = tf.data.Dataset.range(2).map(lambda x: tf.random.uniform((2, 3)) * 0 + tf.cast(x, tf.float32))
    texts = tf.data.Dataset.from_tensors("a").map(lambda text: tf.constant([[len(text.numpy())] * 3] * 2))
    (batch,) = drawn.map(lambda x: tf.random.uniform(()) * 0 + x).map(checked).batch(2)
    assert batch[:, 0, 0].numpy().tolist() == [1, 2]
    assert next(iter(texts.map(checked))).numpy().tolist() == [[2] * 3] * 2
