"""A variable whose rows lie in several ``tf.Variable``s: single rows are changed and looked up."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import muster
import muster_tensorflow as tf
import recorded
from departures import Departure, Json
from muster._keras import keras
from muster.distribute import ShardedVariable


def content(rows: int, tail: list[int]) -> np.ndarray[Any, Any]:
    return np.arange(rows * int(np.prod(tail)), dtype=np.float32).reshape(rows, *tail)


def made(sizes: list[int], tail: list[int], name: str = "ShardedVariable") -> ShardedVariable:
    """Return a variable of numbers from 0 on, with shards of some rows each."""
    parts = np.split(content(sum(sizes), tail), np.cumsum(sizes)[:-1])
    return ShardedVariable([tf.Variable(part) for part in parts], name)


def _numpy_of(asked: Json) -> np.ndarray[Any, Any]:
    return content(sum(asked["shard_dim0"]), asked["tail_shape"])


def _any_sizes(asked: Json, expect: Json) -> Json | None:
    if asked.get("op") != "scatter_add" or expect.get("error", {}).get("type") != "NotImplementedError":
        return None
    full = _numpy_of(asked)
    np.add.at(full, asked["indices"], asked["values"])
    return {"full": full.tolist()}


DEPARTURES = [Departure("Shards may have any number of rows.", _any_sizes)]


def test_all_departures_are_needed() -> None:
    assert recorded.unused("partitioners", DEPARTURES) == []


def outcome(asked: Json) -> Json:
    """Do what a case asks for."""
    variable = made(asked["shard_dim0"], asked["tail_shape"])
    if asked["op"] == "tf.nn.embedding_lookup":
        return {"value": tf.nn.embedding_lookup(variable, asked["indices"]).tolist()}
    rows = tf.IndexedSlices(np.float32(asked.get("values", 0)), np.array(asked["indices"]))
    getattr(variable, asked["op"])(rows)
    return {"full": np.asarray(variable).tolist()}


def is_ours(case: dict[str, Any]) -> bool:
    operation = case["input"].get("op", "")
    return case["name"].startswith("sharded/") and (
        operation.startswith("scatter_") or operation in ("gather_nd", "tf.nn.embedding_lookup")
    )


@pytest.mark.parametrize("case", recorded.cases("partitioners", is_ours, DEPARTURES))
def test_recorded_cases(case: dict[str, Any]) -> None:
    expect = case["expect"]
    if "error" in expect:
        with pytest.raises(Exception) as raised:  # noqa: PT011  # compared below
            outcome(case["input"])
        recorded.check_error(expect["error"], raised.value)
    else:
        recorded.check_same(outcome(case["input"]), expect)


def test_reading_rows_does_not_put_the_shards_together() -> None:
    """What a look-up and its gradient do to arrays as large as a shard: none is made of them all."""
    sizes, ids = [4000, 3000, 3000], np.array([3, 5000, 9999, 3])
    table = made(sizes, [8])

    def shapes_of(function: Any, *args: Any) -> set[tuple[int, ...]]:
        compiled = jax.make_jaxpr(function)(*args)
        return {tuple(each.aval.shape) for eqn in compiled.eqns for each in eqn.outvars}

    def look_up(indices: Any) -> Any:
        return tf.nn.embedding_lookup(table, indices)

    read = jax.jit(look_up)(ids)
    np.testing.assert_array_equal(read, np.asarray(table)[ids])
    for function in (look_up, lambda indices: table[10:30] + indices[0], lambda indices: table[-1]):
        assert max(np.prod(shape) for shape in shapes_of(function, ids)) <= 20 * 8


def test_traced_indices_of_any_type_are_looked_up() -> None:
    table = made([200, 100], [2])
    for dtype in ("uint8", "int16", "uint32", "int64"):
        ids = np.array([[0, 199], [200, 255]]).astype(dtype)
        jitted = jax.jit(lambda ids: tf.nn.embedding_lookup(table, ids))(ids)
        assert jitted.shape == (2, 2, 2)
        np.testing.assert_array_equal(jitted, np.asarray(table)[ids.astype(int)])
        np.testing.assert_array_equal(table.sparse_read(ids), jitted)
    assert np.isnan(jax.jit(table.sparse_read)(np.array([300, -301]))).all()
    np.testing.assert_array_equal(jax.jit(table.sparse_read)(np.array([-1])), [[598, 599]])


def test_rows_that_are_not_there_are_named() -> None:
    table = made([2, 1], [2])
    with pytest.raises(muster.DatasetError, match=r"id value of 3 .* range of \[0, 3\)"):
        tf.nn.embedding_lookup(table, [0, 3])
    with pytest.raises(TypeError, match="Rows have integers as indices, got float32"):
        table.sparse_read(np.float32([1]))


def test_shards_are_trained_like_a_single_variable() -> None:
    ids = np.array([4, 0, 4, 2])

    def trained(table: Any, variables: list[Any]) -> np.ndarray[Any, Any]:
        optimizer = keras.optimizers.SGD(0.1)

        @tf.function
        def step(ids: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.nn.embedding_lookup(table, ids) ** 2)
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            return loss

        step(ids)
        return np.asarray(table)

    table = made([3, 1, 2], [2])
    whole = tf.Variable(np.asarray(table))
    np.testing.assert_allclose(trained(table, table.variables), trained(whole, [whole]), rtol=1e-6)


def test_shards_stay_on_their_devices() -> None:
    devices = jax.devices()[:3]
    shards = []
    for i, device in enumerate(devices):
        with tf.device(device):
            shards.append(tf.Variable(np.full((2, 2), float(i), np.float32)))
    for shard, device in zip(shards, devices, strict=True):
        shard.assign(jax.device_put(shard.value, device))
    table = ShardedVariable(shards)
    table.assign(content(6, [2]))
    table.assign_add(jax.device_put(np.ones((6, 2), np.float32), devices[1]))
    table.scatter_add(tf.IndexedSlices(np.ones((2, 2), np.float32), [5, 0]))
    expected = content(6, [2]) + 1
    expected[[0, 5]] += 1
    np.testing.assert_array_equal(table, expected)
    np.testing.assert_array_equal(table[4:1:-1], expected[4:1:-1])
    np.testing.assert_array_equal(tf.nn.embedding_lookup(table, jnp.array([5, 0, 3])), expected[[5, 0, 3]])
    assert [shard.value.devices() for shard in shards] == [{device} for device in devices]


def test_replicas_change_rows_of_all_shards_and_train_them() -> None:
    strategy = tf.distribute.MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        table = ShardedVariable(
            [tf.Variable(np.ones((2, 2)), aggregation=tf.VariableAggregation.SUM) for _ in range(2)]
        )
        optimizer = keras.optimizers.SGD(0.5)

    def replica() -> Any:
        mine = tf.distribute.get_replica_context().replica_id_in_sync_group
        table.scatter_add(tf.IndexedSlices(jnp.ones((2, 2)), jnp.stack([jnp.int32(mine), jnp.int32(3)])))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.embedding_lookup(table, jnp.stack([mine + 1])))
        slopes = tape.gradient(loss, table.variables)
        optimizer.apply_gradients(zip(slopes, table.variables, strict=True))
        return loss

    losses = strategy.run(tf.function(replica))
    assert [float(loss) for loss in strategy.experimental_local_results(losses)] == [4, 2]
    np.testing.assert_array_equal(table, np.array([[2, 2], [1.5, 1.5], [0.5, 0.5], [3, 3]]))


def test_operations_of_tensorflow_take_it_as_an_array() -> None:
    variable = made([2, 1], [2])
    whole = content(3, [2])
    assert float(tf.reduce_sum(variable)) == jax.jit(lambda: tf.reduce_sum(variable))() == whole.sum()
    np.testing.assert_array_equal(jax.jit(lambda: tf.stack([variable, variable]))(), [whole, whole])


def test_a_checkpoint_has_one_variable_however_many_shards(tmp_path: Any) -> None:
    table = made([3, 2], [2], "table")
    path = tf.train.Checkpoint(v=table).save(tmp_path / "ckpt")
    assert {name: each.shape for name, each in muster.checkpoint.list_variables(path).items()} == {
        "v/table": (5, 2)
    }
    for other in (made([1, 2, 2], [2], "table"), tf.Variable(np.zeros((5, 2), np.float32))):
        other.assign(np.zeros((5, 2), np.float32))
        tf.train.Checkpoint(v=other).restore(path)
        np.testing.assert_array_equal(other, content(5, [2]))
