"""A cluster in one process, whose program ends by an error while the datasets of its workers compute by JAX.

Arguments: a folder, in which each dataset makes a file.
"""

import pathlib
import socket
import sys
import threading
import time

import jax.numpy as jnp

import muster
from muster.cluster import ClusterSpec, SimpleClusterResolver
from muster.data import Dataset
from muster.distribute import ParameterServerStrategy, Server
from muster.distribute.coordinator import ClusterCoordinator

WORKERS = 3
folder = pathlib.Path(sys.argv[1])


def free_port():
    with socket.create_server(("localhost", 0)) as server:
        return server.getsockname()[1]


cluster = ClusterSpec(
    {"worker": [f"localhost:{free_port()}" for _ in range(WORKERS)], "ps": [f"localhost:{free_port()}"]}
)
for job in ("worker", "ps"):
    for index in range(cluster.num_tasks(job)):
        Server(cluster, job_name=job, task_index=index)
strategy = ParameterServerStrategy(SimpleClusterResolver(cluster))
coordinator = ClusterCoordinator(strategy)


def dataset():
    def elements():
        (folder / f"computes-{threading.get_ident()}").touch()
        while True:
            for _ in range(200):
                number = jnp.float32(1) + jnp.float32(2)
            yield number

    return Dataset.from_generator(elements, output_types="float32", output_shapes=())


iterator = iter(coordinator.create_per_worker_dataset(dataset))
for _ in range(WORKERS):
    coordinator.schedule(muster.function(lambda iterator: next(iterator)), args=(iterator,))
while len([*folder.iterdir()]) < WORKERS:
    time.sleep(0.01)
raise ValueError("The program fails.")
