"""A coordinator of ParameterServerStrategy with servers and workers that are threads of this process."""

import contextlib
import threading

import numpy as np
import pytest
from clusters import DEADLINE_SECS

from jobs import free_addresses
from muster import function
from muster._errors import CancelledError
from muster._keras import keras
from muster.cluster import ClusterSpec, SimpleClusterResolver
from muster.data import Dataset
from muster.distribute import (
    FixedShardsPartitioner,
    InputOptions,
    InputReplicationMode,
    ParameterServerStrategy,
    Server,
    get_replica_context,
)
from muster.distribute.coordinator import ClusterCoordinator

# Keras' own:
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


@contextlib.contextmanager
def served(workers=1, servers=1, partitioner=None):
    """Yield the coordinator of a strategy."""
    addresses = free_addresses(workers + servers)
    cluster = ClusterSpec({"worker": addresses[:workers], "ps": addresses[workers:]})
    with contextlib.ExitStack() as opened:
        for job in ("ps", "worker"):
            for index in cluster.task_indices(job):
                opened.enter_context(Server(cluster, job, index))
        strategy = ParameterServerStrategy(SimpleClusterResolver(cluster), partitioner)
        opened.callback(strategy.close)
        yield ClusterCoordinator(strategy)


def test_run_reduce_and_gather_in_closures():
    with served() as coordinator:
        strategy = coordinator.strategy
        with strategy.scope():
            scale = keras.Variable(2.0)
            seen = keras.Variable(0.0, aggregation="sum")

        def of_replica(x):
            context = get_replica_context()
            seen.assign_add(keras.ops.sum(x))
            return x * scale + context.replica_id_in_sync_group

        @function
        def step(x):
            each = strategy.run(of_replica, args=(x,))
            return (
                strategy.reduce("SUM", each, axis=None),
                strategy.reduce("MEAN", each, axis=0),
                strategy.gather(each, axis=0),
                strategy.experimental_local_results(each),
            )

        total, mean, gathered, (local,) = coordinator.schedule(step, args=(np.float32([1, 2]),)).fetch()
        assert (total.tolist(), float(mean), gathered.tolist(), local.tolist()) == ([2, 4], 3, [2, 4], [2, 4])
        assert float(seen) == 3
        assert float(strategy.run(lambda: scale * 3)) == 6  # in this program


def test_what_the_coordinator_and_workers_add_at_once_all_counts():
    with served(workers=2, servers=2, partitioner=FixedShardsPartitioner(2)) as coordinator:
        with coordinator.strategy.scope():
            count = keras.Variable(0, dtype="int32", name="count")
            rows = keras.Variable(np.zeros(6, np.float32), name="rows")

        @function
        def step():
            count.assign_add(1)
            rows.assign_add(keras.ops.ones(6))

        coordinator.schedule(step)
        coordinator.join()
        values = []
        for _ in range(100):
            values.append(coordinator.schedule(step))
            count.assign_add(1)
            rows.assign_sub(2 * np.ones(6))
        coordinator.join()
        assert int(count) == 201
        assert np.asarray(rows).tolist() == [-99.0] * 6


def test_distributed_datasets_are_for_workers():
    take = function(lambda it: (next(it), next(it)))
    with served() as coordinator:
        strategy = coordinator.strategy

        def batches(context):
            return Dataset.range(6).batch(context.get_per_replica_batch_size(4))

        def made_in_function():
            return strategy.experimental_distribute_dataset(Dataset.range(6).batch(4))

        def from_function():
            return strategy.distribute_datasets_from_function(batches)

        for source in (
            made_in_function,
            from_function,
            function(from_function),
            made_in_function(),
            from_function(),
        ):
            it = iter(coordinator.create_per_worker_dataset(source))
            first, second = coordinator.schedule(take, args=(it,)).fetch()
            assert (first.tolist(), second.tolist()) == ([0, 1, 2, 3], [4, 5])
        batch_list = [(np.ones(2), np.ones(2))]
        for source, error in ((batch_list, ValueError), (lambda: batch_list, TypeError)):
            with pytest.raises(error, match=r"Dataset.*Of this data write: muster.data.Dataset.from_loader"):
                coordinator.create_per_worker_dataset(source)
        for distributed in (made_in_function(), from_function()):
            with pytest.raises(ValueError, match="you need to pass this dataset to ClusterCoord"):
                iter(distributed)
        with pytest.raises(NotImplementedError, match="PER_REPLICA"):
            strategy.experimental_distribute_dataset(
                Dataset.range(6).batch(4),
                InputOptions(
                    experimental_fetch_to_device=False,
                    experimental_replication_mode=InputReplicationMode.PER_REPLICA,
                ),
            )


@pytest.mark.parametrize("partitioner", [FixedShardsPartitioner(2), lambda shape, dtype: [2]])
def test_a_scalar_is_not_divided(partitioner):
    with served(servers=2, partitioner=partitioner) as coordinator:
        with coordinator.strategy.scope():
            count = keras.Variable(3.0)
        assert len(coordinator.strategy.storage.rows_of(count)) == 1
        assert coordinator.schedule(function(lambda: count + 1)).fetch() == 4


def test_a_strategy_that_was_closed_says_so():
    with served() as coordinator:
        strategy = coordinator.strategy
        with strategy.scope():
            count = keras.Variable(3.0)
        read = function(lambda: count + 1)
        assert coordinator.schedule(read).fetch() == 4
        strategy.close()
        for fn in (read, function(lambda: 1)):
            with pytest.raises(RuntimeError, match="This coordinator was closed, or its strategy"):
                coordinator.schedule(fn)
        with pytest.raises(RuntimeError, match="The strategy of these variables was closed"):
            np.asarray(count)
        strategy.close()


def test_closing_cancels_what_has_not_run():
    reached, released = threading.Event(), threading.Event()
    _HELD.append((reached, released))

    with served() as coordinator:
        held = coordinator.schedule(
            function(lambda it: next(it)), args=(iter(coordinator.create_per_worker_dataset(_held)),)
        )
        later = coordinator.schedule(function(lambda: 1))
        try:
            assert reached.wait(DEADLINE_SECS)
            coordinator.close()
            for value in (held, later):
                with pytest.raises(CancelledError, match="its coordinator was closed before it had run"):
                    value.fetch()
        finally:
            released.set()


_HELD: list[tuple[threading.Event, threading.Event]] = []


def _held():
    """A dataset of one element, which is made when a test says so."""

    def elements():
        reached, released = _HELD[-1]
        reached.set()
        released.wait(DEADLINE_SECS)
        yield np.int32(0)

    return Dataset.from_generator(elements, output_types=np.int32, output_shapes=())
