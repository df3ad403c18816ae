"""Trains two steps and prints what was compiled and what loaded. Run by the tests of the cache.

Argument: the model_dir. With ``--without-cache``, the program turns the cache off; with ``--in-scope`` it
makes the Estimator in the strategy's scope; with ``--fit`` or ``--loop`` it has none.
"""

import collections
import contextlib
import json
import sys

import numpy as np
from jax import monitoring

import muster
from muster import keras
from muster.data import Dataset
from muster.distribute import MultiWorkerMirroredStrategy
from muster.estimator import Estimator, EstimatorSpec, RunConfig

events = collections.Counter()
monitoring.register_event_listener(lambda event, **_: events.update([event.rpartition("/")[2]]))


def model_fn(features, labels, mode):
    loss = keras.ops.mean((keras.layers.Dense(1)(features) - labels) ** 2)
    train_op = muster.minimize(keras.optimizers.SGD(0.1), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
    return Dataset.from_tensor_slices((np.ones((8, 3), np.float32), np.ones((8, 1), np.float32))).batch(4)


muster.config.use_compilation_cache("--without-cache" not in sys.argv)
strategy = MultiWorkerMirroredStrategy()
config = RunConfig(train_distribute=strategy)
if "--fit" in sys.argv:
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    model.fit(input_fn(), verbose=0)
elif "--loop" in sys.argv:
    variable, step = keras.Variable(np.ones(3)), muster.function(lambda x: variable.assign_add(x))
    step(np.ones(3, np.float32))
else:
    with strategy.scope() if "--in-scope" in sys.argv else contextlib.nullcontext():
        estimator = Estimator(model_fn, sys.argv[1], config)
    estimator.train(input_fn)
counted = {name: events[name] for name in ("compile_requests_use_cache", "cache_hits", "cache_misses")}
print("events", json.dumps([config.task_id, *counted.values()]), flush=True)
