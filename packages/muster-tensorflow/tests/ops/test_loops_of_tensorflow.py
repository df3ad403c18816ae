"""Branches by number, loops along an axis, `TensorArray`, and functions with gradients of their own."""

import numpy as np
import pytest

import muster_tensorflow as tf


def both(function):
    """Return a function's results in Python and compiled."""
    return function, tf.function(function)


def test_switch_case_calls_the_function_of_a_number():
    def pick(i):
        return tf.switch_case(
            i, [lambda: tf.constant(1.0), lambda: tf.constant(2.0)], lambda: tf.constant(9.0)
        )

    for function in both(pick):
        assert [float(function(np.int32(i))) for i in (0, 1, 7)] == [1, 2, 9]
    assert tf.switch_case(3, {3: lambda: "three", 5: lambda: "five"}) == "three"
    assert tf.switch_case(4, {3: lambda: "three", 5: lambda: "five"}) == "five"


def test_case_calls_the_function_of_the_first_condition_that_holds():
    def pick(x):
        return tf.case([(x < 1, lambda: tf.constant(1.0)), (x < 2, lambda: x * 2)], lambda: x * 0)

    for function in both(pick):
        assert [float(function(np.float32(x))) for x in (0.5, 1.5, 5.0)] == [1, 3, 0]


def test_scans_and_folds():
    rows = np.float32([1, 2, 3, 4])
    for function in both(lambda x: tf.scan(lambda a, b: a + b, x)):
        np.testing.assert_array_equal(function(rows), [1, 3, 6, 10])
    np.testing.assert_array_equal(tf.scan(lambda a, b: a * b, rows, 2.0), [2, 4, 12, 48])
    np.testing.assert_array_equal(tf.scan(lambda a, b: a + b, rows, reverse=True), [10, 9, 7, 4])
    assert tf.foldl(lambda a, b: a - b, rows) == -8
    assert tf.foldr(lambda a, b: a - b, rows) == -2
    first, second = tf.scan(lambda a, x: (a[1], a[0] + a[1]), rows, (0.0, 1.0))
    np.testing.assert_array_equal(first, [1, 1, 2, 3])
    np.testing.assert_array_equal(second, [1, 2, 3, 5])


def test_vectorized_map():
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(tf.vectorized_map(tf.reduce_sum, rows), [1, 5, 9])


@pytest.mark.parametrize("kind", [tf.function, lambda function: function], ids=["compiled", "eager"])
def test_a_vectorized_map_has_the_gradients_of_each_value(kind):
    weights = tf.Variable([[1.0], [2.0]])

    @kind
    def gradients(rows, factor):
        def of_one(row):
            with tf.GradientTape() as tape:
                tape.watch(row)
                loss = factor * tf.reduce_sum(tf.matmul(row[None], weights) ** 2)
            return tape.gradient(loss, [row, weights])

        return tf.vectorized_map(of_one, rows)

    rows = np.float32([[1, 2], [3, 4]])
    of_rows, of_weights = gradients(rows, tf.constant(0.5))
    np.testing.assert_allclose(of_rows, [[5, 10], [11, 22]])
    np.testing.assert_allclose(of_weights, [[[5], [10]], [[33], [44]]])


def test_a_tensor_array_is_filled_in_python_loops():
    def squares(rows):
        array = tf.TensorArray(tf.float32, size=len(rows))
        for i in range(len(rows)):
            array = array.write(i, rows[i] * rows[i])
        return array.stack(), array.read(1), array.size()

    for function in both(squares):
        stacked, one, size = function(np.float32([[1, 2], [3, 4]]))
        np.testing.assert_array_equal(stacked, [[1, 4], [9, 16]])
        np.testing.assert_array_equal(one, [9, 16])
        assert size == 2


def test_a_tensor_array_is_filled_in_loops_of_a_step():
    @tf.function
    def squares(n):
        array = tf.TensorArray(tf.float32, size=5, element_shape=())

        def body(i, array):
            return i + 1, array.write(i, tf.cast(i * i, tf.float32))

        return tf.while_loop(lambda i, array: i < n, body, [0, array])[1].stack()

    np.testing.assert_array_equal(squares(np.int32(4)), [0, 1, 4, 9, 0])


def test_a_tensor_array_grows_changes_and_says_where_it_ends():
    array = tf.TensorArray(tf.int32, size=0, dynamic_size=True)
    array.write(2, [1, 2])
    array.write(0, [3, 4])
    np.testing.assert_array_equal(array.concat(), [3, 4, 0, 0, 1, 2])
    np.testing.assert_array_equal(array.gather([2, 0]), [[1, 2], [3, 4]])
    array.append([7, 8])
    np.testing.assert_array_equal(array.read(3), [7, 8])
    unstacked = tf.TensorArray(tf.int32, size=2).unstack([[1], [2], [3]])
    assert (len(unstacked), unstacked.element_shape) == (3, (1,))
    np.testing.assert_array_equal(
        tf.TensorArray(tf.int32, size=2).scatter([1, 0], [[1], [2]]).stack(), [[2], [1]]
    )
    with pytest.raises(IndexError, match="not resizeable and size is: 2"):
        tf.TensorArray(tf.int32, size=2).write(2, 1)
    with pytest.raises(IndexError, match="array size is: 3"):
        unstacked.read(3)
    with pytest.raises(ValueError, match="no element yet"):
        tf.TensorArray(tf.int32, size=2).stack()


def gradient(function, value):
    @tf.function
    def compute(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return y, tape.gradient(y, x)

    return compute(np.float32(value))


def test_a_function_with_a_gradient_of_its_own():
    @tf.custom_gradient
    def reversed_gradient(x):
        return x * 2, lambda dy: -dy

    y, dx = gradient(lambda x: reversed_gradient(x) * 3, 5.0)
    assert (float(y), float(dx)) == (30, -3)
    assert float(reversed_gradient(tf.Variable(4.0))) == 8


def test_gradients_that_compute_again_or_pass():
    y, dx = gradient(tf.recompute_grad(lambda x: x * x), 3.0)
    assert (float(y), float(dx)) == (9, 6)
    y, dx = gradient(tf.grad_pass_through(tf.round), 2.7)
    assert (float(y), float(dx)) == (3, 1)


def test_elements_appended_in_a_function():
    @tf.function
    def squares(numbers):
        result = tf.TensorArray(tf.int32, size=0, dynamic_size=True)
        for number in numbers:
            result.append(number * number)
        return result.stack()

    assert squares(tf.constant([1, 2, 3])).numpy().tolist() == [1, 4, 9]
