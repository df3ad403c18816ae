"""``tf.Variable`` under TensorFlow 2's ParameterServerStrategy, which may divide it into shards."""

import numpy as np
import pytest
from memory_store import with_memory

import muster_tensorflow as tf
import recorded
from muster import function
from muster._keras import keras
from muster.distribute import (
    FixedShardsPartitioner,
    ParameterServerStrategy,
    ParameterServerStrategyV1,
    ShardedVariable,
)
from muster.program.variables import together
from shard_cases import DEPARTURES, partitioner_of, values_of

# Keras' own:
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def test_it_has_its_names_in_tensorflow():
    assert tf.distribute.ParameterServerStrategy is ParameterServerStrategy
    assert tf.distribute.experimental.ParameterServerStrategy is ParameterServerStrategy
    first = tf.compat.v1.distribute.experimental
    assert first.ParameterServerStrategy is ParameterServerStrategyV1
    assert first.CentralStorageStrategy is tf.distribute.experimental.CentralStorageStrategy
    assert tf.compat.v1.distribute.MirroredStrategy is tf.distribute.MirroredStrategy


@pytest.mark.parametrize(
    "case", recorded.cases("partitioners", lambda case: case["name"].startswith("ps_div/"), DEPARTURES)
)
def test_variables_are_divided_as_in_tensorflow(case):
    asked, expect = case["input"], case["expect"]
    strategy, store = with_memory(asked["num_ps"], partitioner_of(asked))
    values = values_of(asked)
    if values is None:
        with strategy.scope():
            kept = [tf.Variable(1.0) for _ in range(5)]
        assert list(store.servers.values()) == expect["ps_task"]
        assert len(kept) == 5
        return
    with strategy.scope():
        if "error" in expect:
            with pytest.raises(ValueError) as raised:  # noqa: PT011  # compared below
                tf.Variable(values.astype("float32"), name="v")
            recorded.check_error(expect["error"], raised.value)
            return
        variable = tf.Variable(values.astype("float32"), name="v")
    found = {"sharded": isinstance(variable, ShardedVariable)}
    shards = variable.variables if found["sharded"] else [variable]
    found["values"] = [shard.numpy().tolist() for shard in shards]
    arrays = [each.array for shard in shards for each in strategy.storage.rows_of(shard)]
    found["ps_task"] = [array.server for array in arrays]
    if found["sharded"]:
        found["sizes"] = [shard.shape[0] for shard in shards]
        found["offsets"] = np.cumsum([0, *found["sizes"]])[:-1].tolist()
        found["names"] = [f"{shard.path}:0" for shard in shards]
    else:
        found["name"] = f"{variable.path}:0"
    # How often TensorFlow calls an initializer is not a matter of where rows are.
    recorded.check_same(found, {key: value for key, value in expect.items() if key != "init_calls"})


def test_a_sharded_variable_is_used_as_a_whole():
    strategy, store = with_memory(2, FixedShardsPartitioner(2))
    with strategy.scope():
        variable = tf.Variable([1.0, 2.0, 3.0, 4.0, 5.0], name="v")
    store.asked.clear()

    @function
    def add():
        variable.assign_add(tf.ones(5))
        return tf.nn.embedding_lookup(variable, [4, 0, 2])

    assert add().tolist() == [6, 2, 4]
    assert store.asked == ["read", "assign"]
    assert tf.convert_to_tensor(variable).tolist() == [2, 3, 4, 5, 6]
    variable.assign([0.0, 0, 0, 0, 1])
    assert store.asked == ["read", "assign", "read", "assign"]
    variable.assign_sub(tf.zeros(5))
    variable.assign_add(np.arange(5))
    assert store.asked[4:] == ["add", "add"]
    assert np.asarray(variable).tolist() == [0, 1, 2, 3, 5]


def test_what_is_added_is_not_read():
    strategy, store = with_memory()
    with strategy.scope():
        table, count = tf.Variable([1.0, 2.0], name="table"), tf.Variable(1, name="count")
        metric = keras.metrics.Mean()
    store.asked.clear()
    count.assign_add(2)
    table.assign_sub([1.0, 1.0])
    assert store.asked == ["add", "add"]
    assert (int(count), table.numpy().tolist()) == (3, [0, 1])
    store.asked.clear()
    metric.update_state([2.0, 4.0])
    assert store.asked == ["add", "add"]
    assert float(metric.result()) == 3


def test_what_is_written_and_added_together_is_in_order():
    strategy, store = with_memory()
    with strategy.scope():
        one, other = tf.Variable([1.0, 2.0]), tf.Variable(1.0)
    store.asked.clear()
    with together([one, other]):
        one.assign_add([1.0, 1.0])
        other.assign(5.0)
        assert store.asked == []
        assert one.numpy().tolist() == [2, 3]
        one.assign([0.0, 0.0])
        one.assign_add([1.0, 2.0])
        one.assign_add([1.0, 2.0])
        other.assign_add(1.0)
        other.assign(7.0)
    assert (one.numpy().tolist(), float(other)) == ([2, 4], 7)


def test_a_sharded_variable_in_a_layer_is_tracked_by_shards():
    strategy, _ = with_memory(2, FixedShardsPartitioner(2))

    class Table(keras.Layer):
        def __init__(self):
            super().__init__()
            self.rows = tf.Variable(np.ones((4, 2), "float32"), name="rows")

        def call(self, ids):
            return tf.nn.embedding_lookup(self.rows, ids)

    with strategy.scope():
        layer = Table()
    assert [each.path for each in layer.trainable_variables] == ["rows/part_0", "rows/part_1"]
    assert layer(np.array([0, 3])).tolist() == [[1, 1], [1, 1]]


def test_checkpoints_are_saved_and_restored_in_few_messages(tmp_path):
    strategy, store = with_memory(2, FixedShardsPartitioner(2))
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(8), keras.layers.Dropout(0.3)])
        table = tf.Variable(np.arange(6.0, dtype="float32"), name="table")
        optimizer = keras.optimizers.Adam(0.01)
        optimizer.build(model.trainable_variables)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, table=table)
    manager = tf.train.CheckpointManager(checkpoint, tmp_path, max_to_keep=2)
    store.asked.clear()
    manager.save()
    assert store.asked == ["read"]
    expected = [each.numpy() for each in (*model.variables, *optimizer.variables)]
    for each in (*model.variables, *optimizer.variables):
        each.assign(np.zeros(each.shape, each.dtype))
    table.assign(np.zeros(6))
    store.asked.clear()
    manager.restore_or_initialize()
    assert store.asked == ["assign"]
    for each, value in zip((*model.variables, *optimizer.variables), expected, strict=True):
        np.testing.assert_array_equal(each.numpy(), value, err_msg=each.path)
    assert np.asarray(table).tolist() == [0, 1, 2, 3, 4, 5]
