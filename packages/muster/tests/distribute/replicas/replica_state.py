"""A model with state that replicas have in common, and a run that tells what each replica computed.

As a program it is one worker of a job; argument: JSON: model_dir, and seen (a file for what it saw).
"""

import json
import sys

import numpy as np

import muster
from muster import keras
from muster.data import Dataset
from muster.distribute import MultiWorkerMirroredStrategy
from muster.estimator import Estimator, EstimatorSpec, ModeKeys, RunConfig, SessionRunArgs, SessionRunHook

ROWS = 4  # of a replica's batch
STEPS = 4  # the last one has five rows, of which two replicas take three and two
RNG = np.random.default_rng(0)
X = RNG.normal(2.0, 3.0, size=(29, 3)).astype(np.float32)
Y = RNG.integers(0, 2, 29)
MOMENTUM = 0.5
EPSILON = 0.1
WIDTH = 50


def model_fn(features, labels, mode):
    training = mode == ModeKeys.TRAIN
    normalized = keras.layers.BatchNormalization(momentum=MOMENTUM, epsilon=EPSILON, name="norm")(
        features, training=training
    )
    wide = keras.ops.ones((ROWS, WIDTH))
    dropped = keras.layers.Dropout(0.5, seed=7, name="drop")(wide, training=training)
    logits = keras.layers.Dense(2, name="dense")(normalized)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)
    if mode == ModeKeys.EVAL:
        total, count = keras.metrics.Sum(name="total"), keras.metrics.Sum(name="count")
        total.update_state(labels)
        count.update_state(keras.ops.ones_like(labels, dtype="float32"))
        accuracy, mean = keras.metrics.Accuracy(name="accuracy"), keras.metrics.Mean(name="mean")
        accuracy.update_state(labels, keras.ops.argmax(logits, axis=1))
        mean.update_state(keras.ops.cast(labels, "float32"))
        metrics = {"total": total, "count": count, "accuracy": accuracy, "mean": mean}
        return EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    muster.name_output("normalized", normalized)
    muster.name_output("dropped", dropped)
    train_op = muster.minimize(keras.optimizers.SGD(0.0), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


class Look(SessionRunHook):
    """Keeps what was normalized, and the masks, of this process' replicas, step by step."""

    def __init__(self):
        self.seen = {}

    def before_run(self, run_context):
        return SessionRunArgs(["normalized", "dropped"])

    def after_run(self, run_context, run_values):
        step = run_context.session.global_step
        for name, value in zip(("normalized", "dropped"), run_values.results, strict=True):
            self.seen[f"{name}{step}"] = np.array(value)


def run(strategy, model_dir):
    """Train and evaluate; what each step computed, the variables in the end, and the metrics, as arrays."""

    def input_fn(input_context):
        # Whole batches are dealt out, so that a worker's are those of a device of one process.
        data = Dataset.from_tensor_slices((X, Y)).batch(ROWS)
        return data.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)

    config = RunConfig(tf_random_seed=1, train_distribute=strategy, eval_distribute=strategy)
    estimator, look = Estimator(model_fn, model_dir, config), Look()
    estimator.train(input_fn, hooks=[look])
    names = estimator.get_variable_names()
    variables = {f"variable:{name}": estimator.get_variable_value(name) for name in names}
    metrics = estimator.evaluate(input_fn)
    return look.seen | variables | {f"metric:{name}": value for name, value in metrics.items()}


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    np.savez(options["seen"], **run(MultiWorkerMirroredStrategy(), options["model_dir"]))
