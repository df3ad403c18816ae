"""A program without a strategy, as one task of a job: fits, or trains an Estimator.

Arguments: ``fit``, ``mirrored``, ``estimator`` or ``estimators``, two in turn, or what trains until it is
interrupted: ``endless``, ``endless-fit`` or ``endless-fit-with-backup``; and a folder for its checkpoints.
"""

import sys
import time

import numpy as np

from muster import get_or_create_global_step, keras, minimize
from muster.data import Dataset
from muster.distribute import MirroredStrategy
from muster.estimator import Estimator, EstimatorSpec, EvalSpec, SessionRunHook, TrainSpec, train_and_evaluate

X, Y = np.ones((64, 4), "float32"), np.ones(64, "float32")


def fit(**options):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(X, Y, batch_size=32, verbose=0, **options)
    model.fit(X, Y, batch_size=32, verbose=0)


def model_fn(features, labels, mode):
    loss = keras.ops.mean((keras.layers.Dense(1)(features)[:, 0] - labels) ** 2)
    train_op = minimize(keras.optimizers.SGD(0.1), loss, get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


class SaysWhenItTrains(SessionRunHook):
    def after_run(self, run_context, run_values):
        time.sleep(0.01)
        if run_context.session.global_step == 5:
            print("trains", flush=True)


def estimate(folder, hooks=(), max_steps=20):
    metrics, exports = train_and_evaluate(
        Estimator(model_fn, model_dir=folder),
        TrainSpec(
            lambda: Dataset.from_tensor_slices((X, Y)).repeat().batch(8), max_steps=max_steps, hooks=hooks
        ),
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
    elif what == "endless":
        estimate(folder, [SaysWhenItTrains()], max_steps=10**9)
    elif what == "endless-fit":
        says = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: epoch == 5 and print("trains"))
        fit(epochs=10**6, callbacks=[says])
    elif what == "endless-fit-with-backup":
        says = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: epoch == 5 and print("trains"))
        fit(epochs=10**6, callbacks=[keras.callbacks.BackupAndRestore(folder), says])
    elif what == "estimators":
        for name in ("first", "second"):
            estimate(f"{folder}/{name}")
    else:
        estimate(folder)
