"""Train a small CNN for ``bench.start`` and ``bench.recovery``, and log the time of each event to a file.

Arguments: the folder for the log (``TASK.json``, a line per event) and for the model; the number of steps.
Before them, ``--fit`` trains by ``fit`` instead of an Estimator.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

import muster
from muster import keras
from muster.data import Dataset
from muster.distribute import MultiWorkerMirroredStrategy
from muster.estimator import Estimator, EstimatorSpec, RunConfig, SessionRunArgs, SessionRunHook

FOLDER, STEPS = Path(sys.argv[-2]), int(sys.argv[-1])


def note(file, what, when=None):
    event = {"what": what, "when": when or time.time(), "pid": os.getpid(), "processor": time.process_time()}
    print(json.dumps(event), file=file, flush=True)


class Notes(SessionRunHook):
    """Log each step when it is done."""

    def __init__(self, file):
        self.file = file

    def before_run(self, run_context):
        return SessionRunArgs(["global_step", "loss"])

    def after_run(self, run_context, run_values):
        note(self.file, int(run_values.results[0]))


class NotedBatches(keras.callbacks.Callback):
    """Log each step of ``fit`` when it is done."""

    def __init__(self, file):
        super().__init__()
        self.file = file

    def on_train_batch_end(self, batch, logs=None):
        note(self.file, batch + 1)


def make_model():
    """Return the model of examples/digits.py."""
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.BatchNormalization(momentum=0.9),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.BatchNormalization(momentum=0.9),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(10),
        ]
    )


def model_fn(features, labels, mode):
    logits = make_model()(features, training=True)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)
    train_op = muster.minimize(keras.optimizers.Adam(1e-3), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def examples():
    rng = np.random.default_rng(0)
    images = rng.random((1437, 8, 8, 1), dtype=np.float32)
    return images, rng.integers(0, 10, len(images)).astype(np.int32)


def input_fn(input_context):
    data = Dataset.from_tensor_slices(examples())
    data = data.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return data.repeat().batch(64 // input_context.num_replicas_in_sync)


def fit(strategy, file):
    with strategy.scope():
        model = make_model()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(1e-3), loss)
    data = Dataset.from_tensor_slices(examples()).repeat().batch(64)
    model.fit(data, steps_per_epoch=STEPS, verbose=0, callbacks=[NotedBatches(file)])


def main():
    imported = time.time()
    strategy = MultiWorkerMirroredStrategy()
    config = RunConfig(tf_random_seed=1, save_checkpoints_steps=20, train_distribute=strategy)
    with (FOLDER / f"{config.task_id}.json").open("a") as file:
        note(file, "imported", imported)
        if "--fit" in sys.argv:
            fit(strategy, file)
            return
        estimator = Estimator(model_fn, str(FOLDER / "model"), config)
        estimator.train(input_fn, hooks=[Notes(file)], steps=STEPS)


main()
