"""Train the guide's model on a parameter server in muster or, if it is installed, in TensorFlow.

It is a task of ``TF_CONFIG``. Its arguments are the global step to end at and the folder for its report,
``TASK.json``: the times of its own steps, in seconds since the epoch. ``SLOW_SECS`` is how long the worker
sleeps after each step. In a cluster without a server, muster's tasks train in step.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

try:
    import tensorflow as tf
except ImportError:
    import muster_tensorflow as tf

BATCH = 64
STEPS, FOLDER = int(sys.argv[1]), Path(sys.argv[2])
JOB = json.loads(os.environ["TF_CONFIG"])
TASK = JOB["task"]["type"]
SLOW_SECS = float(os.environ.get("SLOW_SECS", "0")) if TASK == "worker" else 0.0


def input_fn():
    rng = np.random.default_rng(len(TASK))  # other images for each task
    images = rng.random((BATCH * 50, 28, 28, 1), dtype=np.float32)
    labels = rng.integers(0, 10, len(images)).astype(np.int32)
    return (
        tf.data.Dataset.from_tensor_slices((images, labels))
        .batch(BATCH, drop_remainder=True)
        .cache()
        .repeat()
    )


def model_fn(features, labels, mode):
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )
    each = tf.keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction=tf.keras.losses.Reduction.NONE
    )(labels, model(features, training=True))
    loss = tf.reduce_sum(each) * (1.0 / BATCH)
    optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.01)
    train_op = optimizer.minimize(loss, tf.compat.v1.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class Clock(tf.estimator.SessionRunHook):
    """Note when each step is done."""

    def __init__(self):
        self.times = []

    def after_run(self, run_context, run_values):
        if SLOW_SECS:
            time.sleep(SLOW_SECS)
        self.times.append(time.time())

    def end(self, session):
        (FOLDER / f"{TASK}.json").write_text(json.dumps(self.times))


strategy = None if "ps" in JOB["cluster"] else tf.distribute.MultiWorkerMirroredStrategy()
config = tf.estimator.RunConfig(
    str(FOLDER / "model"),
    train_distribute=strategy,
    save_checkpoints_steps=10**9,
    log_step_count_steps=10**6,
    save_summary_steps=None,
)
tf.estimator.train_and_evaluate(
    tf.estimator.Estimator(model_fn, config=config),
    tf.estimator.TrainSpec(input_fn, max_steps=STEPS, hooks=[Clock()]),
    tf.estimator.EvalSpec(input_fn, steps=1),
)
