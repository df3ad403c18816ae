"""A cluster in one process: a Server for each task, at ports that were free."""

import contextlib
import itertools
import socket
import threading

import numpy as np
import pytest

import muster
from muster._keras import keras
from muster.cluster import ClusterSpec, SimpleClusterResolver
from muster.cluster.roster import query_status
from muster.data import Dataset
from muster.distribute import AsynchronousStrategy, Server
from muster.estimator import Estimator, EstimatorSpec, RunConfig

X = np.random.default_rng(0).normal(size=(64, 5)).astype(np.float32)
Y = X.sum(1, keepdims=True)


def pick_unused_ports(count):
    """As a port picker would: ports that were free a moment ago."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("localhost", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


def cluster_spec(workers, servers):
    ports = iter(pick_unused_ports(1 + workers + servers))
    cluster_dict = {
        "chief": [f"localhost:{next(ports)}"],
        "worker": [f"localhost:{port}" for port in itertools.islice(ports, workers)],
        "ps": [f"localhost:{port}" for port in ports],
    }
    return ClusterSpec(cluster_dict)


TASKS = [("worker", 0), ("worker", 1), ("ps", 0), ("ps", 1), ("chief", 0)]
ORDERS = {
    "workers first": TASKS,
    "servers first": [*TASKS[2:4], *TASKS[:2], TASKS[4]],
    "the chief first": TASKS[::-1],
    "mixed": [TASKS[each] for each in (3, 0, 4, 2, 1)],
}


def model_fn(features, labels, mode):
    outputs = keras.layers.Dense(1)(features)
    loss = keras.ops.mean((outputs - labels) ** 2)
    train_op = muster.minimize(keras.optimizers.Adagrad(0.05), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_five_servers_in_any_order(order, tmp_path):
    cluster = cluster_spec(workers=2, servers=2)
    with contextlib.ExitStack() as opened:
        servers = {
            (kind, index): opened.enter_context(
                Server(cluster, job_name=kind, task_index=index, protocol="grpc")
            )
            for kind, index in order
        }
        resolver = SimpleClusterResolver(cluster, rpc_layer="grpc")
        for (kind, index), server in servers.items():
            assert server.target == resolver.master(kind, index)
            found = query_status(cluster.task_address(kind, index), 10.0)
            assert (found.task.type, found.task.index) == (kind, index)
        joins = [threading.Thread(target=servers["ps", index].join) for index in (1, 0)]
        for join in joins:
            join.start()
        strategy = AsynchronousStrategy(servers["chief", 0], starts=True)
        with contextlib.closing(strategy), strategy.scope():
            estimator = Estimator(model_fn, tmp_path, RunConfig(tf_random_seed=1))
            estimator.train(lambda: Dataset.from_tensor_slices((X, Y)).batch(16).repeat(), max_steps=8)
            strategy.end()
        for join in joins:
            join.join(30)
            assert not join.is_alive()
    assert estimator.get_variable_value("global_step") == 8
