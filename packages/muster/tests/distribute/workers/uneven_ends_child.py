"""One of two workers that do not call the same: run by test_uneven_ends_multiprocess.py.

Argument: what worker 1 does more than worker 0.
"""

import json
import sys

import numpy as np

import muster
from muster._keras import keras
from muster.data import Dataset
from muster.distribute import MultiWorkerMirroredStrategy
from muster.estimator import Estimator, EstimatorSpec, RunConfig

X, Y = np.ones((16, 2), "float32"), np.ones((16, 1), "float32")


def model_fn(features, labels, mode):
    loss = keras.ops.mean((keras.layers.Dense(1)(features) - labels) ** 2)
    train_op = muster.minimize(keras.optimizers.SGD(0.1), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def main(more):
    strategy = MultiWorkerMirroredStrategy()
    extra = strategy.cluster_resolver.task_id == 1
    with strategy.scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    model.fit(X, Y, epochs=1 + (extra and more == "epochs"), verbose=0)
    if extra and more == "evaluate":
        model.evaluate(X, Y, verbose=0)
    if extra and more == "train":
        estimator = Estimator(model_fn, config=RunConfig(train_distribute=strategy))
        estimator.train(lambda: Dataset.from_tensors((X, Y)).repeat(), steps=3)
    print("has trained", flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
