"""A program without a strategy, as one task of test_run_joining_multiprocess.py: fits, or trains an Estimator.

Arguments: ``fit``, ``mirrored`` or ``estimator``, and a folder for its checkpoints.
"""

import sys

import numpy as np

from muster import get_or_create_global_step, keras, minimize
from muster.data import Dataset
from muster.distribute import MirroredStrategy
from muster.estimator import Estimator, EstimatorSpec, EvalSpec, TrainSpec, train_and_evaluate

X, Y = np.ones((64, 4), "float32"), np.ones(64, "float32")


def fit():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(X, Y, batch_size=32, verbose=0)
    model.fit(X, Y, batch_size=32, verbose=0)


def model_fn(features, labels, mode):
    loss = keras.ops.mean((keras.layers.Dense(1)(features)[:, 0] - labels) ** 2)
    train_op = minimize(keras.optimizers.SGD(0.1), loss, get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def estimate(folder):
    metrics, exports = train_and_evaluate(
        Estimator(model_fn, model_dir=folder),
        TrainSpec(lambda: Dataset.from_tensor_slices((X, Y)).repeat().batch(8), max_steps=20),
        EvalSpec(lambda: Dataset.from_tensor_slices((X, Y)).batch(8), start_delay_secs=0, throttle_secs=0),
    )
    print("evaluated", None if metrics is None else metrics["global_step"], exports)


if __name__ == "__main__":
    what, folder = sys.argv[1:]
    if what == "fit":
        fit()
    elif what == "mirrored":
        with MirroredStrategy().scope():
            fit()
    else:
        estimate(folder)
