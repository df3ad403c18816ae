"""A process that trains until it is killed or done. Run by test_estimator_multiprocess.py.

Arguments: the model directory, a file to add a line to for each step, the last step, a strategy. A line is
"<step> <loss in hexadecimal> <the examples of the batch>". The model has dropout and Adam's state, and the
input is shuffled anew in every epoch: resuming is exact only if all of that is.
"""

import sys

import numpy as np

import muster
from muster._keras import keras
from muster.data import Dataset
from muster.distribute import CentralStorageStrategy, MirroredStrategy
from muster.estimator import Estimator, EstimatorSpec, RunConfig, SessionRunArgs, SessionRunHook

COUNT = 37
layers = keras.layers


def input_fn():
    rng = np.random.default_rng(0)
    features = {"id": np.arange(COUNT), "x": rng.normal(size=(COUNT, 5)).astype(np.float32)}
    return Dataset.from_tensor_slices((features, rng.integers(0, 3, COUNT))).shuffle(20).batch(4).repeat()


def model_fn(features, labels, mode):
    muster.name_output("ids", features["id"])
    model = keras.Sequential(
        [
            layers.Dense(16, activation="relu"),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            layers.Dense(3),
        ]
    )
    logits = model(features["x"], training=True)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)
    train_op = muster.minimize(keras.optimizers.Adam(0.01), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


class Report(SessionRunHook):
    def __init__(self, path):
        self.file = open(path, "a", buffering=1)

    def before_run(self, run_context):
        return SessionRunArgs(["global_step", "loss", "ids"])

    def after_run(self, run_context, run_values):
        step, loss, ids = run_values.results
        self.file.write(f"{step} {float(loss).hex()} {','.join(map(str, ids))}\n")
        print(step, flush=True)


STRATEGIES = {
    "default": lambda: None,
    "mirrored": lambda: MirroredStrategy(["/cpu:0", "/cpu:1"]),
    "central storage": lambda: CentralStorageStrategy(["/cpu:0", "/cpu:1"]),
}


def main(model_dir, report, max_steps, strategy):
    config = RunConfig(
        tf_random_seed=1,
        save_checkpoints_steps=10,
        log_step_count_steps=None,
        train_distribute=STRATEGIES[strategy](),
    )
    Estimator(model_fn, model_dir, config).train(input_fn, hooks=[Report(report)], max_steps=max_steps)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
