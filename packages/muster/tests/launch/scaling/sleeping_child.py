"""A training whose time is sleep, so that many workers fit on few cores. Run by test_plan_soak.py.

Arguments: the folder of the model, the steps of each worker, and how long a batch takes to make, in seconds.
"""

import logging
import os
import sys
import time

import numpy as np

import muster
from muster import keras
from muster.cluster import TFConfig
from muster.data import Dataset
from muster.distribute import MultiWorkerMirroredStrategy
from muster.estimator import Estimator, EstimatorSpec, EvalSpec, RunConfig, TrainSpec, train_and_evaluate

BATCH = 8


def model_fn(features, labels, mode):
    predicted = keras.layers.Dense(1)(keras.layers.Dense(1000)(features))
    loss = keras.ops.mean((predicted - labels) ** 2)
    step = muster.get_or_create_global_step()
    return EstimatorSpec(mode, loss=loss, train_op=muster.minimize(keras.optimizers.SGD(0.001), loss, step))


def main(model_dir, steps, secs):
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    x = np.random.default_rng(0).normal(size=(BATCH, 4)).astype(np.float32)
    y = x.sum(axis=1, keepdims=True)

    def batches():
        while True:
            time.sleep(secs)
            yield x, y

    def input_fn():
        return Dataset.from_generator(
            batches, output_types=("float32", "float32"), output_shapes=(x.shape, y.shape)
        )

    config = TFConfig.from_environ(os.environ)
    served = "ps" in config.cluster.jobs
    strategy = None if served else MultiWorkerMirroredStrategy()
    estimator = Estimator(model_fn, config=RunConfig(model_dir=model_dir, train_distribute=strategy))
    if not served:
        estimator.train(input_fn, max_steps=steps)
        return
    workers = 1 + len(config.cluster.task_indices("worker")) if "worker" in config.cluster.jobs else 1
    spec = TrainSpec(input_fn, max_steps=steps * workers)
    train_and_evaluate(estimator, spec, EvalSpec(input_fn, steps=1))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
