"""Random numbers by seeds that a test decides."""

import sys
from unittest import mock

import numpy as np
import pytest

import muster_tensorflow as tf

v1 = tf.compat.v1
Tool = v1.keras.utils.DeterministicRandomTestTool


def drawn():
    dense = tf.keras.layers.Dense(3)
    x = tf.random.normal((2, 4))
    dropped = tf.keras.layers.Dropout(0.5)(tf.ones((64,)), training=True)
    return [x, dense(x), dropped, tf.random.gamma((3,), 1.0)]


def test_numbers_depend_on_how_many_operations_have_drawn_before():
    with Tool(mode="num_random_ops").scope():
        first = drawn()
    np.random.rand(3)
    tool = Tool(mode="num_random_ops")
    with tool.scope():
        second = drawn()

    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, two)
    assert tool.operation_seed == 4
    assert np.isin(first[2], [0, 2]).all()


def test_another_order_draws_others_unless_the_seed_is_constant():
    for mode in ("num_random_ops", "constant"):
        with Tool(mode=mode).scope():
            one, two = tf.random.uniform((3,)), tf.random.uniform((3,))
        assert np.array_equal(one, two) == (mode == "constant")


def test_a_seed_is_used_once():
    tool = Tool(mode="num_random_ops")
    with tool.scope():
        first = tf.random.uniform((3,))
        tool.operation_seed = 5
        tf.random.uniform((3,))
        tool.operation_seed = 0
        with pytest.raises(ValueError, match="used already"):
            tf.random.uniform((3,))
    with Tool(mode="num_random_ops").scope():
        np.testing.assert_array_equal(tf.random.uniform((3,)), first)
    with pytest.raises(ValueError, match="mode"):
        Tool(mode="other")


def test_afterwards_numbers_differ_again():
    with Tool().scope():
        pass
    assert not np.array_equal(tf.random.uniform((3,)), tf.random.uniform((3,)))


def test_a_test_may_replace_the_function_itself():
    module = sys.modules[v1.get_seed.__module__]
    with mock.patch.object(module, "get_seed", wraps=lambda _: (1, 2)):
        one, two = tf.random.uniform((3,)), tf.keras.initializers.GlorotUniform()((3, 3))
    with mock.patch.object(module, "get_seed", wraps=lambda _: (1, 2)):
        np.testing.assert_array_equal(tf.random.uniform((3,)), one)
        np.testing.assert_array_equal(tf.keras.initializers.GlorotUniform()((3, 3)), two)


def test_the_seeds_of_the_program_and_of_an_operation():
    tf.random.set_seed(3)

    assert v1.get_seed(5) == (3, 5)
    assert v1.get_seed(None)[0] == 3
    tf.random.set_seed(0)
    assert v1.get_seed(0) == (0, 2**31 - 1)
