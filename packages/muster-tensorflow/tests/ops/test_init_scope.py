"""``tf.init_scope``: what a function computes at once while it is traced."""

from typing import Any

import numpy as np

import muster_tensorflow as tf


def test_values_and_variables_are_made_at_the_first_call() -> None:
    made: dict[str, Any] = {}

    @tf.function
    def function(x: Any) -> Any:
        if not made:
            with tf.init_scope():
                made["constant"] = tf.ones((2,)) * 3
                made["variable"] = tf.Variable(made["constant"] + 1)
        made["variable"].assign_add(x)
        return made["variable"] + made["constant"]

    for expected in (8, 9):
        np.testing.assert_array_equal(function(tf.constant([1.0, 1.0])), [expected] * 2)
    np.testing.assert_array_equal(made["constant"], [3, 3])
    assert made["variable"].numpy().tolist() == [6, 6]


def test_what_is_assigned_there_is_assigned_once() -> None:
    class Counter(tf.Module):  # type: ignore[misc]  # the class is made while the program runs
        def __init__(self) -> None:
            self.value = tf.Variable(0)
            self.counted = False

        @tf.function
        def __call__(self) -> Any:
            if not self.counted:
                with tf.init_scope():
                    self.counted = True
                    self.value.assign_add(1)
            return self.value

    counter = Counter()
    assert [int(counter()) for _ in range(3)] == [1, 1, 1]


def test_values_of_the_function_stay_its_own() -> None:
    @tf.function
    def function(x: Any) -> Any:
        with tf.init_scope():
            return x * tf.constant(2.0)

    assert [float(function(tf.constant(x))) for x in (1.0, 2.0)] == [2.0, 4.0]


def test_in_eager_code_it_does_nothing() -> None:
    with tf.init_scope():
        assert float(tf.constant(1.0) + 1) == 2.0
