"""Checkpoints of a coordinator's variables, which the parameter servers write, each its own rows."""

import contextlib
import logging
import os

import numpy as np
import pytest

import muster
from jobs import free_addresses
from muster._errors import CheckpointError
from muster._keras import keras
from muster.checkpoint import latest_checkpoint, list_checkpoints, list_rows
from muster.cluster import ClusterSpec, SimpleClusterResolver
from muster.distribute import FixedShardsPartitioner, ParameterServerStrategy, Server
from muster.distribute.coordinator import ClusterCoordinator
from muster.ps import _part_writer
from object_checkpoints import ObjectCheckpoint

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
            table = keras.Variable(np.arange(10.0, dtype="float32").reshape(5, 2), name="table")
        saved = [*values_of(model, optimizer), np.asarray(table)]
        path = ObjectCheckpoint(model=model, optimizer=optimizer, table=table).save(tmp_path)
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
            table = keras.Variable(np.zeros((5, 2), dtype="float32"), name="table")
        ObjectCheckpoint(model=model, optimizer=optimizer, table=table).restore(path)
        assert_same([*values_of(model, optimizer), np.asarray(table)], saved)

    model, optimizer = built(3)
    table = keras.Variable(np.zeros((5, 2), dtype="float32"), name="table")
    ObjectCheckpoint(model=model, optimizer=optimizer, table=table).restore(path)
    assert_same([*values_of(model, optimizer), np.asarray(table)], saved)


def test_what_servers_cannot_see_the_coordinator_writes(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(_part_writer, "sees_folder", lambda folder, token: False)
    with strategy_of(1) as (strategy, _):
        with strategy.scope():
            model, optimizer = built(1)
        saved = values_of(model, optimizer)
        with caplog.at_level(logging.WARNING):
            path = ObjectCheckpoint(model=model, optimizer=optimizer).save(tmp_path)
    assert {each.writer for found in list_rows(path).values() for each in found} == {""}
    assert "does not see" in caplog.text
    model, optimizer = built(2)
    ObjectCheckpoint(model=model, optimizer=optimizer).restore(path)
    assert_same(values_of(model, optimizer), saved)


def test_a_server_with_the_variables_of_another_coordinator_writes_nothing(tmp_path):
    with strategy_of(1) as (strategy, _):
        with strategy.scope():
            model, optimizer = built(1)
        checkpoint = ObjectCheckpoint(model=model, optimizer=optimizer)
        first = checkpoint.save(tmp_path)
        strategy.storage.close()
        later = ParameterServerStrategy(strategy.cluster_resolver)
        with later.scope():
            keras.Variable(1.0)
        with pytest.raises(CheckpointError, match="another coordinator has begun a job on this server"):
            checkpoint.save(tmp_path)
        later.close()
    assert latest_checkpoint(tmp_path) == first


@contextlib.contextmanager
def embedding(servers):
    """Yield a model whose table lies on servers by rows, its optimizer, and what trains some ids."""
    with strategy_of(servers) as (strategy, _):
        with strategy.scope():
            layer = keras.layers.Embedding(40_000, 8, name="table")
            layer.build()
            optimizer = keras.optimizers.Adagrad(0.1)
            optimizer.build(layer.trainable_variables)
        coordinator = ClusterCoordinator(strategy)
        stack = contextlib.ExitStack()
        with stack:
            stack.enter_context(Server(strategy.cluster, "worker", 0))
            stack.callback(coordinator.close)

            @muster.function
            def step(ids):
                with muster.GradientTape() as tape:
                    loss = keras.ops.sum(layer(ids) ** 2)
                optimizer.apply(tape.gradient(loss, layer.trainable_variables), layer.trainable_variables)

            def train(*ids):
                coordinator.schedule(step, args=(np.array(ids, np.int32),))
                coordinator.join()

            yield ObjectCheckpoint(layer=layer, optimizer=optimizer), train


def test_between_full_checkpoints_only_rows_that_have_changed_are_written(tmp_path):
    sizes, values = [], []
    with embedding(2) as (checkpoint, train):
        for ids in ((3, 39_999), (5, 20_001, 39_999), (7,)):
            train(*ids)
            path = checkpoint.save(tmp_path, max_to_keep=2)
            own = {each.name for each in os.scandir(path) if each.stat().st_nlink == 1}
            sizes.append(sum(os.path.getsize(os.path.join(path, name)) for name in own))
            values.append(values_of(*checkpoint.objects.values()))
    whole = 40_000 * 8 * 4 * 2
    assert sizes[0] > whole
    # The first one is gone, so that nobody shares the large files with the last one but the one between.
    assert max(sizes[1:]) < whole / 100
    kept = [each.path for each in list_checkpoints(tmp_path)]
    assert len(kept) == 2
    for path, expected in zip(kept, values[1:], strict=True):
        with embedding(1) as (checkpoint, _):
            checkpoint.restore(path)
            assert_same(values_of(*checkpoint.objects.values()), expected)


def test_without_the_file_of_an_earlier_checkpoint_all_rows_are_written_again(tmp_path):
    with embedding(1) as (checkpoint, train):
        train(3)
        first = checkpoint.save(tmp_path)
        size = part_size(first)
        train(5)
        assert part_size(checkpoint.save(tmp_path)) < size / 100
        for path in tmp_path.glob("ckpt-*/*-ps-0.safetensors"):
            path.unlink()
        train(7)
        last = checkpoint.save(tmp_path)
        assert part_size(last) == size
        expected = values_of(*checkpoint.objects.values())
    with embedding(1) as (checkpoint, _):
        checkpoint.restore(last)
        assert_same(values_of(*checkpoint.objects.values()), expected)


def part_size(path):
    """Return the size of what a server has written newly into a checkpoint."""
    return sum(
        each.stat().st_size for each in os.scandir(path) if "-ps-" in each.name and each.stat().st_nlink == 1
    )
