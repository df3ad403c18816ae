"""``tf.train.Checkpoint`` of a coordinator's variables, which the parameter servers write."""

import contextlib

import numpy as np
import pytest

import muster_tensorflow as tf
from jobs import free_addresses
from muster._keras import keras
from muster.checkpoint import list_rows
from muster.cluster import ClusterSpec, SimpleClusterResolver
from muster.distribute import FixedShardsPartitioner, ParameterServerStrategy, Server
from muster.extend import whole_variables

pytestmark = [
    pytest.mark.processes,
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
]


@contextlib.contextmanager
def strategy_of(servers):
    """Yield a strategy whose servers are threads of this process, and these."""
    cluster = ClusterSpec({"ps": free_addresses(servers), "worker": free_addresses(1)})
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(Server(cluster, "ps", index)) for index in range(servers)]
        strategy = ParameterServerStrategy(SimpleClusterResolver(cluster), FixedShardsPartitioner(servers))
        stack.callback(strategy.close)
        yield strategy, started


def built(seed):
    """Return a model with a dropout, whose seed is not on servers, and its optimizer; both are built."""
    keras.utils.set_random_seed(seed)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(5), keras.layers.Dropout(0.5)])
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    return model, optimizer


def values_of(*objects):
    return [np.array(variable.value) for each in objects for variable in whole_variables(each.variables)]


def assert_same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_each_server_writes_its_rows_and_any_number_of_servers_restores_them(tmp_path):
    with strategy_of(2) as (strategy, _):
        with strategy.scope():
            model, optimizer = built(1)
            table = tf.Variable(np.arange(10.0, dtype="float32").reshape(5, 2), name="table")
        saved = [*values_of(model, optimizer), np.asarray(table)]
        path = tf.train.Checkpoint(model=model, optimizer=optimizer, table=table).save(tmp_path / "ckpt")
    rows = list_rows(path)
    spans = [[(each.writer, each.start, each.stop) for each in found] for found in rows.values()]
    assert [("ps-0", 0, 2), ("ps-1", 2, 3)] in spans  # the kernel
    assert [("ps-0", 0, 3), ("ps-1", 3, 5)] in spans  # the table
    assert [("", 0, 2)] in spans  # the seed of the dropout
    assert [name.partition("/")[0] for name in rows] == sorted(
        (name.partition("/")[0] for name in rows), key=["model", "optimizer", "table"].index
    )

    with strategy_of(1) as (strategy, _):
        with strategy.scope():
            model, optimizer = built(2)
            table = tf.Variable(np.zeros((5, 2), dtype="float32"), name="table")
        tf.train.Checkpoint(model=model, optimizer=optimizer, table=table).restore(path)
        assert_same([*values_of(model, optimizer), np.asarray(table)], saved)

    model, optimizer = built(3)
    table = tf.Variable(np.zeros((5, 2), dtype="float32"), name="table")
    tf.train.Checkpoint(model=model, optimizer=optimizer, table=table).restore(path)
    assert_same([*values_of(model, optimizer), np.asarray(table)], saved)


def test_a_manager_keeps_the_last_of_them(tmp_path):
    with strategy_of(1) as (strategy, _):
        with strategy.scope():
            model, optimizer = built(1)
        manager = tf.train.CheckpointManager(
            tf.train.Checkpoint(model=model, optimizer=optimizer), tmp_path, max_to_keep=2
        )
        saved = []
        for number in range(3):
            model.layers[0].bias.assign(np.full(5, number))
            manager.save()
            saved.append(values_of(model, optimizer))
        assert len(manager.checkpoints) == 2
        for path, expected in zip(manager.checkpoints, saved[1:], strict=True):
            manager.checkpoint.restore(path)
            assert_same(values_of(model, optimizer), expected)
        assert tf.train.latest_checkpoint(tmp_path) == manager.latest_checkpoint
