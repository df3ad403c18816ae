"""Functions for one kind of arguments: what they take and return, as in TensorFlow 2.15."""

import jax
import numpy as np
import pytest

import muster_tensorflow as tf


def test_arguments_are_converted_as_the_specs_say():
    double = tf.function(lambda x: x * 2).get_concrete_function(tf.TensorSpec([None], tf.float32))
    assert double([1, 2]).numpy().tolist() == [2, 4]
    assert double(x=tf.constant([1.5])).numpy().tolist() == [3]
    with pytest.raises(tf.errors.InvalidArgumentError, match="got the dtype int32"):
        double(tf.constant([1, 2]))
    signed = tf.function(lambda x: x * 2, input_signature=[tf.TensorSpec([None], tf.int32)])
    assert signed([1, 2]).numpy().tolist() == [2, 4]
    for wrong in ([1.5], tf.constant([1.5])):
        with pytest.raises(TypeError, match="dtype"):
            signed(wrong)


def test_there_is_one_for_each_kind_of_arguments():
    class Powers:
        @tf.function
        def power(self, a, b=2):
            return a**b

    of = Powers()
    for function in (tf.function(lambda a, b: a**b), of.power):
        square = function.get_concrete_function(tf.constant(2.0), 2)
        assert square is function.get_concrete_function(tf.TensorSpec([], tf.float32), 2)
        for others in ((tf.constant([2.0]), 2), (tf.constant(2.0), 2.0), (tf.constant(2), 2)):
            assert square is not function.get_concrete_function(*others)
    assert of.power.get_concrete_function(2.0) is not Powers().power.get_concrete_function(2.0)


def test_text_is_no_number():
    twice = tf.function(lambda s: s + s).get_concrete_function(tf.constant("a"))
    assert twice(tf.constant("b")) == "bb"
    with pytest.raises(tf.errors.InvalidArgumentError, match="got the dtype int32"):
        twice(tf.constant(1))


def test_constants_are_given_again_or_left_out():
    power = tf.function(lambda a, b: a**b)
    square = power.get_concrete_function(a=tf.TensorSpec(None, tf.float32), b=2)
    ten = tf.constant(10.0)
    results = [square(ten), square(ten, 2), square(ten, b=2), square(a=ten)]
    assert [float(each) for each in results] == [100] * 4
    with pytest.raises(TypeError, match="The argument b of this function is 2, got 3"):
        square(ten, b=3)


def test_what_it_returns_is_described():
    function = tf.function(lambda x, scale=1: {"x": x, "parts": [tf.cast(x[0], tf.float32), tf.shape(x)]})
    outputs = function.get_concrete_function(tf.TensorSpec([2, None], tf.int32)).structured_outputs
    assert outputs == {
        "x": tf.TensorSpec([2, None], tf.int32),
        "parts": [tf.TensorSpec([None], tf.float32), tf.TensorSpec([2], tf.int32)],
    }


def test_what_it_takes_and_returns_is_a_signature():
    text = tf.TensorSpec([], tf.string)
    twice = tf.function(lambda a: a + a).get_concrete_function(tf.constant("a"))
    assert twice.structured_outputs == text
    assert twice.function_type.parameters["a"].annotation == text
    assert twice.function_type.return_annotation == text
    several = tf.function(lambda s, n: tf.strings.length(s) * n).get_concrete_function(
        tf.TensorSpec([None, 2], tf.string), tf.constant(2)
    )
    assert several.structured_outputs == tf.TensorSpec([None, 2], tf.int32)
    scaled = tf.function(lambda x, n=2: {"y": x * n}).get_concrete_function(tf.constant(1.0))
    assert "x: TensorSpec(shape=(), dtype=float32), n: Literal[2]" in str(scaled.function_type)
    assert scaled.function_type.return_annotation == {"y": tf.TensorSpec([], tf.float32)}


def test_outputs_whose_free_size_can_be_but_one():
    class Dense(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(tf.ones([5, 3]))

        @tf.function
        def run(self, x):
            return x @ self.w

    dense = Dense()
    of_rows = dense.run.get_concrete_function(tf.TensorSpec([None, None]))
    assert of_rows.structured_outputs == tf.TensorSpec([None, 3], tf.float32)
    np.testing.assert_array_equal(of_rows(tf.ones([4, 5])), np.full([4, 3], 5))
    with pytest.raises(TypeError, match="contract"):
        _ = dense.run.get_concrete_function(tf.TensorSpec([None, 4])).structured_outputs


def test_there_is_no_graph():
    function = tf.function(lambda x: tf.sin(x) + 1)
    concrete = function.get_concrete_function(tf.constant(1.0))
    with pytest.raises(AttributeError, match="jax.make_jaxpr"):
        _ = concrete.graph
    with pytest.raises(AttributeError, match="structured_outputs"):
        _ = concrete.inputs
    assert not hasattr(concrete, "other")
    computed = jax.make_jaxpr(function.python_function)(tf.constant(1.0))
    assert [each.primitive.name for each in computed.eqns] == ["sin", "add"]


def test_traces_are_counted():
    double = tf.function(lambda x: x * 2)
    assert double.experimental_get_tracing_count() == 0
    for number in (1.0, 2.0):
        double(tf.constant(number))
    double.get_concrete_function(tf.constant(3.0))
    assert double.experimental_get_tracing_count() == 1
    double(tf.constant(1))
    double.get_concrete_function(tf.TensorSpec([None], tf.float32))
    assert double.experimental_get_tracing_count() == 3
