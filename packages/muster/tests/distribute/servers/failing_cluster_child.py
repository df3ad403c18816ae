"""A cluster in one process, whose program ends by an error while the datasets of its workers compute by JAX.

Arguments: a folder, in which each dataset makes a file.
"""

import pathlib
import socket
import sys
import threading
import time

import jax.numpy as jnp

import muster_tensorflow as tf

WORKERS = 3
folder = pathlib.Path(sys.argv[1])


def free_port():
    with socket.create_server(("localhost", 0)) as server:
        return server.getsockname()[1]


cluster = tf.train.ClusterSpec(
    {"worker": [f"localhost:{free_port()}" for _ in range(WORKERS)], "ps": [f"localhost:{free_port()}"]}
)
for job in ("worker", "ps"):
    for index in range(cluster.num_tasks(job)):
        tf.distribute.Server(cluster, job_name=job, task_index=index)
strategy = tf.distribute.ParameterServerStrategy(
    tf.distribute.cluster_resolver.SimpleClusterResolver(cluster)
)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)


def dataset():
    def elements():
        (folder / f"computes-{threading.get_ident()}").touch()
        while True:
            for _ in range(200):
                number = jnp.float32(1) + jnp.float32(2)
            yield number

    return tf.data.Dataset.from_generator(elements, output_types=tf.float32, output_shapes=())


iterator = iter(coordinator.create_per_worker_dataset(dataset))
for _ in range(WORKERS):
    coordinator.schedule(tf.function(lambda iterator: next(iterator)), args=(iterator,))
while len([*folder.iterdir()]) < WORKERS:
    time.sleep(0.01)
raise ValueError("The program fails.")
