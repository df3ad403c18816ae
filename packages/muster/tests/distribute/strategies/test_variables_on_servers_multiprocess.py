"""Variables of ParameterServerStrategy on real servers, in threads of this process."""

import threading

import numpy as np
import pytest

from jobs import free_addresses
from muster._keras import keras
from muster.cluster import ClusterSpec, SimpleClusterResolver
from muster.distribute import FixedShardsPartitioner, ParameterServerStrategy, Server

# Keras' own:
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def test_variables_live_on_servers_over_connections():
    first, second, worker = free_addresses(3)
    cluster = ClusterSpec({"ps": [first, second], "worker": [worker]})
    servers = [Server(cluster, "ps", index) for index in range(2)]
    threads = [threading.Thread(target=server.join) for server in servers]
    for thread in threads:
        thread.start()
    strategy = ParameterServerStrategy(SimpleClusterResolver(cluster), FixedShardsPartitioner(2))
    try:
        with strategy.scope():
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4)])
            table = keras.Variable(np.arange(10.0, dtype="float32"), name="table")
        weights = [np.full(each.shape, number) for number, each in enumerate(model.variables)]
        model.set_weights(weights)
        for found, expected in zip(model.get_weights(), weights, strict=True):
            np.testing.assert_array_equal(found, expected)
        table.assign_add(np.ones(10))
        assert np.asarray(table).tolist() == list(range(1, 11))
    finally:
        strategy.close()
        for thread in threads:
            thread.join(30)
        for server in servers:
            server.close()
    assert not any(thread.is_alive() for thread in threads)
