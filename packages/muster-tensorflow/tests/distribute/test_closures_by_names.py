"""Closures of a coordinator, and what they work on, by TensorFlow's names. Workers are threads here."""

import json
import pickle

import jax
import numpy as np
import pytest
from absl import flags
from clusters import coordinated
from memory_servers import MemoryServers

import muster_tensorflow as tf
from jobs import free_addresses
from muster._errors import CheckpointMismatchError, OutOfRangeError
from muster._keras import keras
from muster._row_ids import LEAST_TABLE_BYTES
from muster.cluster import ClusterSpec, SimpleClusterResolver
from muster.distribute.coordinator import ClusterCoordinator
from muster.distribute.coordinator._pickling import pickled
from muster_tensorflow.programs.v1.flags import FlagValues

FLAGS = flags.FlagValues()
flags.DEFINE_integer("rows", 3, "How many.", flag_values=FLAGS)
UNITS = 4
ROWS = LEAST_TABLE_BYTES // 4 // UNITS
SPLIT = [(0, 0, ROWS // 2), (1, ROWS // 2, ROWS)]
RNG = np.random.default_rng(0)
IDS = RNG.choice([0, 3, 5, ROWS // 2 - 1, ROWS // 2, ROWS // 2 + 7, ROWS - 1], (4, 6, 3)).astype("int32")
TARGETS = RNG.normal(size=(4, 6, 1)).astype("float32")
COUNT, SIZE = 50, 4


def test_workers_have_the_values_of_flags_of_tensorflow_1():
    FLAGS(["program", "--rows=7"])
    flag_values = FlagValues(FLAGS)
    assert pickle.loads(pickled(lambda: [flag_values.rows]))() == [7]


def test_a_lookup_takes_rows_from_servers():
    servers = MemoryServers(servers=2)
    values = np.arange(ROWS * UNITS).reshape(ROWS, UNITS)
    users = servers.add(keras.Variable(values, dtype="float32", name="users"), *SPLIT)
    whole = np.asarray(users)
    rows = tf.function(lambda ids: tf.nn.embedding_lookup(users, ids))
    with coordinated(workers=1, storage=servers) as coordinator:
        found = coordinator.schedule(rows, args=(IDS[0],)).fetch()
    np.testing.assert_array_equal(found, whole[IDS[0]])
    assert servers.rows["pulled"] == len(np.unique(IDS[0]))


def combined(made):
    """Weighted ragged ids, of two tables."""
    tables = [keras.Variable(np.ones((ROWS, UNITS)), dtype="float32", name=name) for name in ("one", "two")]
    made += tables

    def lookup(ids):
        ragged = jax.numpy.where(ids > 3, ids, -1)
        weights = jax.numpy.cos(ids)
        one, two = (
            tf.nn.embedding_lookup_sparse(table, ragged, weights, combiner=combiner)
            for table, combiner in zip(tables, ("sqrtn", "mean"), strict=True)
        )
        return tf.concat([one, two], 1)

    return lookup


def test_tables_of_sparse_lookups_train_by_rows():
    def prepared():
        weights = []
        found = combined(weights)
        optimizer = keras.optimizers.Adagrad(0.1)
        optimizer.build(weights)

        @tf.function
        def step(ids, targets):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((found(ids) - targets) ** 2)
            optimizer.apply(tape.gradient(loss, weights), weights)
            return loss

        return weights, optimizer, step

    servers = MemoryServers(servers=2)
    weights, _, step = prepared()
    expected = [float(step(*batch)) for batch in zip(IDS, TARGETS, strict=True)]
    trained, optimizer, step = prepared()
    for variable in [*trained, *optimizer.variables]:
        tall = tuple(variable.shape) == (ROWS, UNITS)
        servers.add(variable, *(SPLIT if tall else [(1, 0, None)]))
    with coordinated(workers=1, storage=servers) as coordinator:
        losses = [coordinator.schedule(step, args=batch) for batch in zip(IDS, TARGETS, strict=True)]
        np.testing.assert_allclose(coordinator.fetch(losses), expected, rtol=1e-5)
    for variable, value in zip(trained, weights, strict=True):
        np.testing.assert_allclose(servers.value(variable), np.asarray(value), rtol=1e-5, atol=1e-7)
    assert 0 < servers.rows["pulled"] <= 2 * IDS.size


def test_variables_in_shards_count_what_the_coordinator_and_workers_add():
    addresses = free_addresses(4)
    cluster = ClusterSpec({"worker": addresses[:2], "ps": addresses[2:]})
    servers = [tf.distribute.Server(cluster, job, index) for job in ("ps", "worker") for index in range(2)]
    partitioner = tf.distribute.experimental.partitioners.FixedShardsPartitioner(2)
    strategy = tf.distribute.ParameterServerStrategy(SimpleClusterResolver(cluster), partitioner)
    try:
        coordinator = ClusterCoordinator(strategy)
        with strategy.scope():
            count = tf.Variable(0, name="count")
            single = tf.Variable(3.0)
            rows = tf.Variable(np.zeros(6, np.float32), name="rows")
            seen = tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM)

        @tf.function
        def step():
            strategy.run(lambda: seen.assign_add(1.0))
            count.assign_add(1)
            rows.assign_add(tf.ones(6))

        for _ in range(50):
            coordinator.schedule(step)
            count.assign_add(1)
            rows.assign_sub(2 * np.ones(6))
        coordinator.join()
        assert (int(count), float(seen), count.numpy()) == (100, 50, 100)
        assert np.asarray(rows).tolist() == [-50.0] * 6
        assert len(rows.variables) == 2
        assert len(strategy.storage.rows_of(single)) == 1  # a scalar is not divided
        assert coordinator.schedule(tf.function(lambda: single + 1)).fetch() == 4
        strategy.close()
        with pytest.raises(RuntimeError, match="The strategy of these variables was closed"):
            count.numpy()
    finally:
        strategy.close()
        for server in servers:
            server.close()


def from_arrays():
    return tf.data.Dataset.range(COUNT).shuffle(COUNT).batch(SIZE)


def test_another_program_goes_on_where_a_checkpoint_was_written(tmp_path):
    take = tf.function(lambda it: next(it))
    seen = []
    with coordinated(workers=2) as coordinator:
        it = iter(coordinator.create_per_worker_dataset(from_arrays, dispatch="dynamic"))
        values = [coordinator.schedule(take, args=(it,)) for _ in range(5)]
        coordinator.join()
        seen += coordinator.fetch(values)
        assert json.loads(json.dumps(it.position)) == it.position
        checkpoint = tf.train.Checkpoint(iterator=it, variable=tf.Variable(1.0))
        path = checkpoint.save(tmp_path / "ckpt")
    with coordinated(workers=1) as coordinator:
        it = iter(coordinator.create_per_worker_dataset(from_arrays, dispatch="dynamic"))
        coordinator.schedule(take, args=(it,)).fetch()
        tf.train.Checkpoint(iterator=it, variable=tf.Variable(0.0)).restore(path)
        values = []
        try:
            while True:
                values.append(coordinator.schedule(take, args=(it,)))
        except OutOfRangeError:
            coordinator.join()
        seen += coordinator.fetch(values)
    assert sorted(np.concatenate(seen).tolist()) == list(range(COUNT))
    with pytest.raises(CheckpointMismatchError, match="no position of the iterator 'other'"):
        tf.train.Checkpoint(other=iter(from_arrays()), variable=tf.Variable(0.0)).restore(path)


def test_the_place_of_an_iterator_is_in_a_checkpoint(tmp_path):
    first = iter(tf.data.Dataset.range(6))
    next(first)
    path = tf.train.Checkpoint(iterator=first).save(tmp_path / "ckpt")
    second = iter(tf.data.Dataset.range(6))
    tf.train.Checkpoint(iterator=second).restore(path)
    assert list(second) == [1, 2, 3, 4, 5]
