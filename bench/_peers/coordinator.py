"""Schedule functions by a ClusterCoordinator of muster or, if it is installed, of TensorFlow.

It is a task of ``TF_CONFIG``. Workers and servers serve. The chief prints a line when it is ready, and
answers each line of its standard input by one of JSON: ``empty N`` and ``fetch N``, where it schedules N
functions that do nothing, or fetches the constants that N functions return, one after the other.
"""

import json
import sys
import time

try:
    import tensorflow as tf
except ImportError:
    import muster_tensorflow as tf


@tf.function
def nothing():
    pass


@tf.function
def constant():
    return tf.constant(1.0)


def empty(count):
    """Return how long it takes to schedule functions that do nothing, and until they have run."""
    began = time.perf_counter()
    for _ in range(count):
        coordinator.schedule(nothing)
    coordinator.join()
    return time.perf_counter() - began


def fetch(count):
    """Return how long each of some functions takes from its scheduling until its result is here."""
    secs = []
    for _ in range(count):
        began = time.perf_counter()
        coordinator.schedule(constant).fetch()
        secs.append(time.perf_counter() - began)
    coordinator.join()
    return secs


resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
    ).join()
    sys.exit()
coordinator = tf.distribute.coordinator.ClusterCoordinator(tf.distribute.ParameterServerStrategy(resolver))
empty(100)
fetch(20)
print("ready", flush=True)
for line in sys.stdin:
    what, count = line.split()
    print(json.dumps({"empty": empty, "fetch": fetch}[what](int(count))), flush=True)
