"""One worker of a job, as TF_CONFIG says. Run by test_multi_worker_mirrored_multiprocess.py.

Argument: JSON: model_dir, report (a file for a JSON line a step), optimizer, steps, batch_size, fail_at,
kill_at (steps after which worker 1 kills itself, once each).
"""

import json
import logging
import os
import signal
import sys
from pathlib import Path

import numpy as np

import muster
from muster import keras
from muster.data import Dataset
from muster.distribute import CommunicationOptions, MultiWorkerMirroredStrategy
from muster.estimator import Estimator, EstimatorSpec, ModeKeys, RunConfig, SessionRunArgs, SessionRunHook

layers = keras.layers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(256, 8, 8, 1)).astype(np.float32)
Y = RNG.integers(0, 3, 256)
OPTIMIZERS = {"sgd": lambda: keras.optimizers.SGD(0.1), "adam": lambda: keras.optimizers.Adam(0.01)}


def model_fn(features, labels, mode, params):
    model = keras.Sequential(
        [layers.Conv2D(4, 3, activation="relu"), layers.MaxPooling2D(), layers.Flatten(), layers.Dense(3)]
    )
    logits = model(features)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)
    if mode == ModeKeys.EVAL:
        accuracy, count = keras.metrics.SparseCategoricalAccuracy(name="accuracy"), keras.metrics.Sum("count")
        accuracy.update_state(labels, logits)
        count.update_state(keras.ops.ones_like(labels, "float32"))
        return EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy, "count": count})
    optimizer = OPTIMIZERS[params["optimizer"]]()
    train_op = muster.minimize(optimizer, loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn(mode, params, input_context):
    data = Dataset.from_tensor_slices((X, Y) if mode == ModeKeys.TRAIN else (X[:251], Y[:251]))
    data = data.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    data = data.batch(params["batch_size"] // input_context.num_replicas_in_sync)
    return data.repeat() if mode == ModeKeys.TRAIN and not params.get("one_epoch") else data


class Report(SessionRunHook):
    def __init__(self, path, fail_at, kill_at):
        self.path, self.fail_at, self.kill_at = path, fail_at, kill_at

    def before_run(self, run_context):
        return SessionRunArgs(["global_step", "loss"])

    def after_run(self, run_context, run_values):
        step, loss = (value.item() for value in run_values.results)
        with open(self.path, "a") as file:
            file.write(json.dumps([step, loss]) + "\n")
        print("step", step, flush=True)
        if step == self.fail_at:
            raise LookupError("the hook of this worker gave up")
        killed = Path(f"{self.path}.killed-at-{step}")
        if step in self.kill_at and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def main(options):
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    strategy = MultiWorkerMirroredStrategy(
        communication_options=CommunicationOptions(timeout_seconds=options.get("silence"))
    )
    config = RunConfig(
        tf_random_seed=1,
        train_distribute=strategy,
        eval_distribute=strategy,
        save_checkpoints_steps=10,
        log_step_count_steps=None,
    )
    est = Estimator(model_fn, options["model_dir"], config, params=options)
    index = strategy.input_context.input_pipeline_id
    report = options["report"].format(index=index)
    hooks = [Report(report, options.get("fail_at"), options.get("kill_at", []) if index == 1 else [])]
    est.train(input_fn, hooks=hooks, max_steps=options["steps"])
    metrics = est.evaluate(input_fn)
    print("metrics", json.dumps({name: value.item() for name, value in metrics.items()}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
