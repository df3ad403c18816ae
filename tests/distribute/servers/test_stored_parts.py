"""Checkpoints of a coordinator's variables, which the parameter servers write, each its own rows."""

import contextlib
import logging

import numpy as np
import pytest

import muster.compat.tensorflow as tf
from jobs import free_addresses
from muster._errors import CheckpointError
from muster._keras import keras
from muster.checkpoint import list_rows
from muster.cluster import ClusterSpec, SimpleClusterResolver
from muster.distribute import FixedShardsPartitioner, ParameterServerStrategy, Server
from muster.ps import _part_writer

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
    return [np.array(variable.value) for each in objects for variable in each.variables]


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


def test_what_servers_cannot_see_the_coordinator_writes(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(_part_writer, "sees_folder", lambda folder, token: False)
    with strategy_of(1) as (strategy, _):
        with strategy.scope():
            model, optimizer = built(1)
        saved = values_of(model, optimizer)
        with caplog.at_level(logging.WARNING):
            path = tf.train.Checkpoint(model=model, optimizer=optimizer).save(tmp_path / "ckpt")
    assert {each.writer for found in list_rows(path).values() for each in found} == {""}
    assert "does not see" in caplog.text
    model, optimizer = built(2)
    tf.train.Checkpoint(model=model, optimizer=optimizer).restore(path)
    assert_same(values_of(model, optimizer), saved)


def test_a_server_with_the_variables_of_another_coordinator_writes_nothing(tmp_path):
    with strategy_of(1) as (strategy, _):
        with strategy.scope():
            model, optimizer = built(1)
        checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
        first = checkpoint.save(tmp_path / "ckpt")
        strategy.storage.close(ends=False)
        later = ParameterServerStrategy(strategy.cluster_resolver)
        with later.scope():
            tf.Variable(1.0)
        with pytest.raises(CheckpointError, match="another coordinator has begun a job on this server"):
            checkpoint.save(tmp_path / "ckpt")
        later.close()
    assert tf.train.latest_checkpoint(tmp_path) == first
