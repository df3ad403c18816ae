"""Conditions, loops and Python functions, on the host and in compiled functions."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster_tensorflow as tf
import muster_tensorflow.compat.v1 as tf1


def test_conditions() -> None:
    def absolute(x: Any) -> Any:
        return tf.cond(x < 0, lambda: -x, lambda: x)

    assert absolute(-2) == 2
    assert [float(jax.jit(absolute)(x)) for x in (-2.0, 3.0)] == [2.0, 3.0]
    assert tf1.cond(True, fn1=lambda: "yes", fn2=lambda: "no") == "yes"
    with pytest.raises(TypeError, match="needs two functions"):
        tf1.cond(True, lambda: 1)


def test_only_the_function_that_is_chosen_runs_on_the_host() -> None:
    assert tf.cond(np.bool_(True), lambda: 1, lambda: 1 / 0) == 1


def test_loops() -> None:
    def power(x: Any) -> Any:
        return tf.while_loop(lambda i, p: i < 3, lambda i, p: [i + 1, p * x], [0, 1.0])

    assert [float(value) for value in power(2.0)] == [3, 8.0]
    assert [float(value) for value in jax.jit(power)(2.0)] == [3, 8.0]
    few = tf.while_loop(lambda i: True, lambda i: i + 1, [0], maximum_iterations=4)
    assert (len(few), int(few[0])) == (1, 4)
    assert int(tf1.while_loop(lambda i: i < 5, lambda i: i + 2, [0])) == 6


def test_functions_of_each_element() -> None:
    elems = (np.array([1, 2, 3]), np.array([10.0, 20.0, 30.0], np.float32))
    assert tf.map_fn(lambda pair: pair[0] + pair[1], elems).tolist() == [11, 22, 33]
    twice = jax.jit(lambda x: tf.map_fn(lambda v: {"twice": v * 2}, x))(jnp.arange(3))
    assert twice["twice"].tolist() == [0, 2, 4]
    with pytest.raises(ValueError, match="at least one element"):
        tf.map_fn(lambda v: v, np.zeros((0, 2)))


def test_results_of_different_lengths_are_rows_of_a_ragged_tensor() -> None:
    spec = tf.RaggedTensorSpec([None], tf.int32)

    def ranges(lengths: Any) -> Any:
        return tf.map_fn(tf.range, lengths, fn_output_signature=spec)

    for function in (ranges, tf.function(ranges)):
        assert function(tf.constant([2, 0, 3])).to_list() == [[0, 1], [], [0, 1, 2]]
    rows, lengths = tf.map_fn(
        lambda n: (tf.range(n), n), tf.constant([1, 2]), fn_output_signature=(spec, tf.int32)
    )
    assert (rows.to_list(), lengths.numpy().tolist()) == ([[0], [0, 1]], [1, 2])
    nested = tf.ragged.constant([[[1], []], [[2, 3]]])
    spec = tf.RaggedTensorSpec([None, None], tf.int32)
    assert tf.map_fn(lambda row: row + 1, nested, fn_output_signature=spec).to_list() == [[[2], []], [[3, 4]]]


def test_python_functions_run_in_the_map_of_a_dataset() -> None:
    def lengths(text: str, number: Any) -> Any:
        return tf.numpy_function(lambda t, n: [len(t), n.item() / 2], [text, number], [tf.int64, tf.float32])

    data = tf.data.Dataset.from_tensor_slices((["ab", "c"], [1, 2])).map(lengths)
    found = [[value.item() for value in np.asarray(element)] for element in data]
    assert found == [[2, 0.5], [1, 1.0]]
    numbers = tf.data.Dataset.range(3).map(lambda x: tf.py_function(lambda v: int(v) ** 2, [x], tf.int64))
    calls: list[int] = []
    noted = tf.data.Dataset.range(2).map(lambda x: (tf.py_function(lambda: calls.append(1), [], ()), x)[1])
    assert [int(each) for each in noted] == [0, 1]
    assert len(calls) >= 2
    assert [int(value) for value in numbers] == [0, 1, 4]
    assert tf1.py_func(lambda x: x + 1, [np.int32(1)], tf.int32) == 2


def test_whether_code_runs_eagerly() -> None:
    seen = []
    assert tf.executing_eagerly()
    tf.function(lambda: seen.append(tf.executing_eagerly()))()
    assert seen[0] is False


def test_what_is_a_tensor() -> None:
    tensors = [jnp.zeros(2), tf.constant([2**40]), tf.constant("a"), tf.constant(["a"])]
    assert all(tf.is_tensor(value) and isinstance(value, tf.Tensor) for value in tensors)
    for value in (tf.Variable(1), tf.ragged.constant([[1], [2, 3]])):
        assert (tf.is_tensor(value), isinstance(value, tf.Tensor)) == (True, False)
    for value in (np.zeros(2), np.float32(1), 1, [1], "a", b"a", None):
        assert (tf.is_tensor(value), isinstance(value, tf.Tensor)) == (False, False)
    with pytest.raises(TypeError, match=r"call tf\.constant"):
        tf.Tensor([1])


def test_what_functions_of_datasets_work_on_are_tensors() -> None:
    seen = []
    elements = {"row": np.zeros((2, 3)), "number": np.arange(2), "text": ["a", "b"]}
    data = tf.data.Dataset.from_tensor_slices(elements)
    list(data.map(lambda x: seen.extend(isinstance(each, tf.Tensor) for each in x.values()) or x))
    assert seen == [True] * len(seen)
    tf.function(lambda x: seen.append(isinstance(x, tf.Tensor)))(np.zeros(2))
    assert seen[-1]


def test_structures_have_leaves_of_none() -> None:
    assert tf.nest.flatten({"b": None, "a": [1, (2,)]}) == [1, 2, None]
    assert tf.nest.map_structure(lambda x, y: x + y, {"a": 1}, {"a": 2}) == {"a": 3}
    assert tf.nest.pack_sequence_as([0, (0, 0)], [1, 2, 3]) == [1, (2, 3)]
