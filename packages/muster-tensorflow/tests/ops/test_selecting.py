"""Masks, slices, orders and places of values; numbers are those of TensorFlow 2.15."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster_tensorflow as tf
from muster import TraceError


def same(found: Any, expected: Any) -> bool:
    return np.asarray(found).tolist() == expected


def test_masks_of_lengths() -> None:
    rows = [[True, False, False], [True, True, True], [True, True, False]]
    assert same(tf.sequence_mask([1, 3, 2]), rows)
    mask = tf.sequence_mask([[1, 3], [2, 0]], 2, dtype=tf.float32)
    assert mask.dtype == np.float32
    assert same(mask, [[[1, 0], [1, 1]], [[1, 1], [0, 0]]])
    assert same(jax.jit(lambda x: tf.sequence_mask(x, 3))(jnp.array([1, 3, 2])), rows)
    with pytest.raises(TraceError, match="sequence_mask without maxlen"):
        jax.jit(tf.sequence_mask)(jnp.array([1]))


def test_masked_values_are_for_input_functions() -> None:
    table = np.array([[1, 2], [3, 4]])
    assert same(tf.boolean_mask(table, [True, False], axis=1), [[1], [3]])
    assert same(tf.boolean_mask(table, [[True, False], [True, True]]), [1, 3, 4])
    assert same(tf.compat.v1.boolean_mask(table, [False, True], "name", 0), [[3, 4]])
    with pytest.raises(TraceError, match="boolean_mask gives an array whose shape depends"):
        jax.jit(lambda mask: tf.boolean_mask(table, mask))(jnp.array([True, False]))


def test_a_dataset_masks_row_by_row() -> None:
    data = tf.data.Dataset.from_tensor_slices(np.arange(6).reshape(2, 3))
    kept = [row.tolist() for row in data.map(lambda row: tf.boolean_mask(row, row % 2 == 0))]
    assert kept == [[0, 2], [4]]


def test_different_values_keep_their_order() -> None:
    values, places = tf.unique([5, 3, 5, 1, 3])
    assert (values.tolist(), places.tolist()) == ([5, 3, 1], [0, 1, 0, 2, 1])


def test_values_at_places() -> None:
    table = [[1, 2], [3, 4]]
    assert same(tf.gather_nd(table, [[0, 1], [1, 0]]), [2, 3])
    assert same(tf.gather_nd(table, [[1], [0]]), [[3, 4], [1, 2]])
    assert same(tf.gather_nd(table, [[1], [0]], batch_dims=1), [2, 3])
    assert same(tf.gather(table, [[1], [0]], axis=1, batch_dims=1), [[2], [3]])
    numbers = np.arange(24).reshape(2, 3, 4)
    found = tf.gather(numbers, [[1, 0], [0, 2]], axis=2, batch_dims=1)
    assert same(found, [numbers[0][:, [1, 0]].tolist(), numbers[1][:, [0, 2]].tolist()])
    assert same(
        tf.gather(numbers, [[2, 0], [1, 1]], batch_dims=1), numbers[[[0], [1]], [[2, 0], [1, 1]]].tolist()
    )
    assert same(tf.gather(table, [1], None, 1), [[2], [4]])
    assert same(tf.compat.v1.gather(table, [1], None, "name", 1), [[2], [4]])


def test_values_are_put_at_places() -> None:
    assert same(tf.scatter_nd([[1], [1]], [5, 6], [3]), [0, 11, 0])
    assert same(tf.tensor_scatter_nd_update([1, 2, 3], [[0], [2]], [7, 8]), [7, 2, 8])
    assert same(tf.tensor_scatter_nd_add([[1, 2], [3, 4]], [[0, 1], [0, 1]], [5, 5]), [[1, 12], [3, 4]])


def test_slices_have_a_start_and_a_size() -> None:
    numbers = np.arange(12).reshape(3, 4)
    assert same(tf.slice(numbers, [1, 0], [-1, 2]), [[4, 5], [8, 9]])
    assert same(tf.slice(numbers, [0, 0], [2, 1]), [[0], [4]])
    part = jax.jit(lambda start: tf.slice(numbers, [start, 1], [2, -1]))(1)
    assert same(part, [[5, 6, 7], [9, 10, 11]])
    with pytest.raises(TraceError, match="needs a size"):
        jax.jit(lambda start: tf.slice(numbers, [start, 1], [-1, 2]))(1)
    with pytest.raises(TraceError, match="needs sizes that are known"):
        jax.jit(lambda size: tf.slice(numbers, [0, 1], [size, 2]))(1)


def test_orders() -> None:
    assert same(tf.sort([3, 1, 2], direction="DESCENDING"), [3, 2, 1])
    order = tf.argsort([3, 1, 3, 2], direction="DESCENDING")
    assert order.dtype == np.int32
    assert same(order, [0, 2, 3, 1])
    assert same(tf.argsort([3, 1, 2]), [1, 2, 0])
    with pytest.raises(ValueError, match="got 'DOWN'"):
        tf.sort([1], direction="DOWN")
    assert same(tf.searchsorted([1, 3, 5], [3, 4]), [1, 2])
    assert same(tf.reverse([[1, 2], [3, 4]], [1]), [[2, 1], [4, 3]])
    assert same(tf.roll([1, 2, 3], 1, 0), [3, 1, 2])
    assert same(tf.repeat([1, 2], [1, 2]), [1, 2, 2])


def test_grids_and_lines() -> None:
    columns, rows = tf.meshgrid([1, 2], [3, 4, 5])
    assert same(columns, [[1, 2]] * 3)
    assert same(rows, [[3, 3], [4, 4], [5, 5]])
    assert same(tf.meshgrid([1, 2], [3, 4, 5], indexing="ij")[0], [[1] * 3, [2] * 3])
    line = tf.linspace(0.0, 1.0, 5)
    assert line.dtype == np.float32
    assert same(line, [0, 0.25, 0.5, 0.75, 1])
    assert tf.linspace(0, 10, 3).dtype == np.float64
    assert same(tf.linspace([0.0, 1.0], [10.0, 3.0], 3, axis=-1), [[0, 5, 10], [1, 2, 3]])


def test_text_is_taken_by_what_a_model_returns() -> None:
    names = np.array(["no", "yes", "up"])

    @tf.function
    def named(x: Any) -> Any:
        return tf.gather(names, tf.argmax(x, axis=-1))

    assert tf.gather(names, jnp.array([2, 0])).numpy().tolist() == [b"up", b"no"]
    assert named(jnp.array([[0.0, 1.0], [1.0, 0.0]])).numpy().tolist() == [b"yes", b"no"]
    with pytest.raises(TraceError, match="tf.gather of text needs values that a compiled step computes"):
        jax.jit(lambda x: tf.gather(names, x))(jnp.array([0]))


def test_functions_whose_shapes_depend_on_values_run_uncompiled() -> None:
    @tf.function
    def positive(x: Any) -> Any:
        return tf.reduce_sum(tf.boolean_mask(x, x > 0)), tf.zeros(tf.reduce_sum(tf.cast(x > 0, tf.int32)))

    total, zeros = positive(jnp.array([1.0, -2.0, 3.0]))
    assert float(total) == 4
    assert zeros.shape == (2,)


def test_sizes_of_constants_are_known_in_a_step() -> None:
    edges = tf.constant([[0, 1], [2, 0], [2, 1], [0, 2]])
    sources = np.array([0, 2, 2, 0])

    @jax.jit
    def step(scores: jax.Array) -> Any:
        total = tf.math.unsorted_segment_sum(scores, edges[:, 0], num_segments=tf.reduce_max(edges[:, 0]) + 1)
        places = tf.where(tf.nn.relu(edges[:, 1]) > 0)
        return total, tf.repeat(total, tf.math.bincount(tf.cast(edges[:, 0], "int32"))), places

    total, repeated, places = step(jnp.array([1.0, 2.0, 3.0, 4.0]))
    assert same(total, [5, 0, 5])
    assert same(repeated, np.repeat([5.0, 0, 5], np.bincount(sources)).tolist())
    assert same(places, [[0], [2], [3]])
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.jit(lambda ids: tf.math.unsorted_segment_sum(ids, ids, tf.reduce_max(ids) + edges[0, 0]))(sources)


def test_places_of_a_condition_need_values() -> None:
    with pytest.raises(TraceError, match="as many as there are"):
        jax.jit(lambda x: tf.where(x > 1))(jnp.array([0, 2]))
    with pytest.raises(ValueError, match="needs x and y"):
        tf.where([True], x=[1])
