"""``tf.Variable``."""

import numpy as np
import pytest

import muster_tensorflow as tf


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
def test_variables_of_64_bit_have_32():
    epoch = tf.Variable(initial_value=tf.constant(0, dtype=tf.dtypes.int64), name="epoch")
    epoch.assign_add(1)
    assert epoch.numpy() < 2
    assert epoch.dtype == epoch.value.dtype == "int32"
    assert tf.Variable(np.float64(1.5)).dtype == "float32"
    with pytest.raises(ValueError, match="too large for: set jax_enable_x64"):
        tf.Variable(2**40)


def test_rows_are_read_and_changed():
    table = tf.Variable(np.zeros((2, 3), np.float32))
    assert table.batch_scatter_update(tf.IndexedSlices([[1, 2], [3, 4]], [[0, 1], [1, 2]])) is table
    table.scatter_nd_add([[0, 2], [1, 0]], [5.0, 6.0])
    np.testing.assert_array_equal(table.read_value(), [[1, 2, 5], [6, 3, 4]])
    table.scatter_nd_sub([[0, 2]], [1.0]).scatter_nd_update([[1]], [[7.0, 8.0, 9.0]])
    table.scatter_nd_max([[0, 0]], [3.0]).scatter_nd_min([[0, 1]], [0.0])
    table.scatter_sub(tf.IndexedSlices([[1.0, 1.0, 1.0]], [1]))
    np.testing.assert_array_equal(table.sparse_read([1, 0]), [[6, 7, 8], [3, 0, 4]])
    np.testing.assert_array_equal(table.gather_nd([[0, 2], [1, 0]]), [4, 6])


def test_parts_are_assigned_to():
    table = tf.Variable([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert table[0, 1].assign(42) is table
    table[:, 2].assign([0.0, 1.0])
    table[tf.newaxis, 0, ::2].assign([[7.0, 8.0]])
    table[1].assign(np.ones(3))
    np.testing.assert_array_equal(table, [[7, 42, 8], [1, 1, 1]])
    table[..., 0].assign(5.0)
    np.testing.assert_array_equal(table, [[5, 42, 8], [5, 1, 1]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="broadcast"):
        table[..., 0].assign([1.0, 2.0, 3.0])

    @tf.function
    def change(row):
        table[row, 0].assign(9.0)
        table[0].assign([3.0, 2.0, 1.0])

    change(tf.constant(1))
    np.testing.assert_array_equal(table, [[3, 2, 1], [9, 1, 1]])
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(table[0] * 2)
    np.testing.assert_array_equal(tape.gradient(total, table), [[2, 2, 2], [0, 0, 0]])


def test_only_parts_of_variables_are_assigned_to():
    table = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    assert hasattr(table[0], "assign")
    for array in (table + 0, table[0] + 0, tf.constant([1.0, 2.0])[0], table[table.value > 2], table.value):
        assert not hasattr(array, "assign")
    with pytest.raises(AttributeError, match="only variables do, and parts of them"):
        tf.constant(1.0).assign(2.0)


def test_changes_that_replicas_cannot_combine_are_refused():
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    row = tf.IndexedSlices([2.0], [0])
    with strategy.scope():
        table = tf.Variable([1.0], aggregation=tf.VariableAggregation.SUM)
        own = tf.Variable(
            [1.0],
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )
    with pytest.raises(NotImplementedError, match="scatter_max is only supported for mirrored variable"):
        strategy.run(lambda: table.scatter_max(row) and None)
    with pytest.raises(NotImplementedError, match="synchronization=ON_READ"):
        own.scatter_add(row)
    with strategy.scope():
        assert float(table.scatter_add(row)[0]) == 3.0


def test_values_are_read_by_a_method_that_code_keeps():
    table = tf.Variable([1.0, 2.0])
    read = table.value
    np.testing.assert_array_equal(read(), [1, 2])
    table.assign([3.0, 4.0])
    value = table.value  # which is called nowhere
    np.testing.assert_array_equal(value, [3, 4])
    for get in (lambda v: v.value(), lambda v: v.value):
        np.testing.assert_array_equal(get(table), [3, 4])
