"""Clusters whose servers and workers are threads of this process, for `fit` under ParameterServerStrategy."""

import contextlib

from jobs import free_addresses
from muster._keras import keras
from muster.cluster import ClusterSpec, SimpleClusterResolver
from muster.distribute import FixedShardsPartitioner, ParameterServerStrategy, Server, function
from muster.distribute.coordinator import ClusterCoordinator, experimental_get_current_worker_index


@contextlib.contextmanager
def strategy_of(workers=1, servers=1, shards=1):
    """Yield a strategy; all connections have been made."""
    addresses = free_addresses(workers + servers)
    cluster = ClusterSpec({"ps": addresses[:servers], "worker": addresses[servers:]})
    with contextlib.ExitStack() as stack:
        for kind, count in (("ps", servers), ("worker", workers)):
            for index in range(count):
                stack.enter_context(Server(cluster, kind, index))
        strategy = ParameterServerStrategy(SimpleClusterResolver(cluster), FixedShardsPartitioner(shards))
        stack.callback(strategy.close)
        coordinator = ClusterCoordinator(strategy)
        stack.callback(coordinator.close)
        _connect(strategy, coordinator, workers, servers)
        yield strategy


def _connect(strategy, coordinator, workers, servers):
    """Have each worker use each server."""
    with strategy.scope():
        counts = [keras.Variable([0.0] * (1 + 9 * n), name=f"count_{n}") for n in range(servers)]
    seen = set()

    @function
    def touch():
        for count in counts:
            count.assign_add(count.value + 1.0)
        return experimental_get_current_worker_index()

    while len(seen) < workers:
        seen.update(int(each) for each in coordinator.fetch([coordinator.schedule(touch) for _ in range(9)]))


class Examples(keras.metrics.Metric):
    """Counts examples."""

    def __init__(self):
        super().__init__(name="examples")
        self.total = self.add_weight(name="total", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        self.total.assign_add(keras.ops.cast(keras.ops.shape(y_true)[0], "float32"))

    def result(self):
        return self.total.value


def counting():
    """A model with dropout that learns, and counts the examples of an epoch."""
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dropout(0.3), keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=[Examples()])
    return model
