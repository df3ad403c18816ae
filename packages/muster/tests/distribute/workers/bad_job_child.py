"""A program for several workers, with mistakes on request. Run by test_bad_jobs_multiprocess.py.

Argument: JSON: model_dir, and any of the keys that `main` and the functions before it look for.
"""

import contextlib
import ctypes
import importlib.metadata
import json
import logging
import os
import signal
import sys
import time

import jax
import numpy as np

import muster
from muster import keras
from muster.cluster.roster import _roster_watch
from muster.data import Dataset
from muster.distribute import (
    CommunicationOptions,
    InputContext,
    MirroredStrategy,
    MultiWorkerMirroredStrategy,
)
from muster.distribute.workers._socket_workers import SocketWorkers
from muster.estimator import CheckpointSaverListener, Estimator, EstimatorSpec, RunConfig, SessionRunHook
from muster.net import _greeting


def model_fn(features, labels, mode):
    features = features["x"] if isinstance(features, dict) else features
    prediction = keras.layers.Dense(1)(features)
    loss = keras.ops.mean((prediction - labels) ** 2)
    train_op = muster.minimize(keras.optimizers.SGD(0.01), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn_of(options):
    def input_fn(input_context):
        if "input_error" in options:
            raise LookupError(options["input_error"])
        if "slow_input" in options:
            time.sleep(options["slow_input"])
        count = options.get("examples", 64)
        features, labels = (
            np.ones((count, 3), options.get("dtype", "float32")),
            np.ones((count, 1), np.float32),
        )
        given = {"x": features} if options.get("as_dict") else features
        data = Dataset.from_tensor_slices((given, labels))
        data = data.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
        return data.batch(8).repeat()

    return input_fn


class Hook(SessionRunHook):
    def __init__(self, options):
        self.options = options

    def begin(self):
        if "hook_error" in self.options:
            raise LookupError(self.options["hook_error"])

    def after_run(self, run_context, run_values):
        # One write, also where Python does not buffer: other threads write into the same log.
        print(f"step {run_context.session.global_step}\n", end="", flush=True)
        time.sleep(self.options.get("slow_hook", 0.0))
        if "abort" in self.options and run_context.session.global_step == 5:
            os.abort()
        if "hold" in self.options and run_context.session.global_step == 5:
            ctypes.PyDLL(None).sleep(int(self.options["hold"]))  # which keeps the interpreter's lock


# Hooks of programs that run this one.
MORE_HOOKS = []


class Evaluation(CheckpointSaverListener):
    """Evaluates the first checkpoint for as long as options say."""

    def __init__(self, estimator, options):
        self.estimator, self.options = estimator, {"slow_hook": options["slow_evaluation"]}

    def after_save(self, session, global_step_value):
        if global_step_value == 0:  # once is enough
            self.estimator.evaluate(lambda: input_fn_of({})(InputContext()), 1, [Hook(self.options)])


def strategy_of(options):
    if options.get("strategy") == "mirrored":
        return MirroredStrategy()
    return MultiWorkerMirroredStrategy(
        communication_options=CommunicationOptions(
            implementation=options.get("implementation", "AUTO"), timeout_seconds=options.get("step_timeout")
        ),
        session_creation_timeout_secs=options.get("timeout", 100.0),
    )


def main(options):
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if "jax" in options:
        version = importlib.metadata.version
        importlib.metadata.version = lambda name: options["jax"] if name == "jax" else version(name)
    if "protocol" in options:
        _greeting.VERSION = options["protocol"]
        _greeting.MAGIC = b"muster" + bytes([_greeting.VERSION]) + b"\n"
    if "stray_secs" in options:
        _roster_watch.STRAY_SECS = options["stray_secs"]
    if "before_connecting" in options:
        number = signal.Signals[options["before_connecting"]]
        SocketWorkers.connect = lambda *args: os.kill(os.getpid(), number)
    jax.config.update("jax_num_cpu_devices", options.get("devices", 1))
    strategy = strategy_of(options)
    config = RunConfig(
        tf_random_seed=1,
        train_distribute=strategy,
        save_checkpoints_steps=10,
        log_step_count_steps=None,
        session_creation_timeout_secs=options.get("start_timeout", 100.0),
    )
    estimator = Estimator(model_fn, options["model_dir"], config)
    scope = MirroredStrategy().scope() if options.get("scope") else contextlib.nullcontext()
    with scope:
        estimator.train(
            input_fn_of(options),
            [Hook(options), *MORE_HOOKS],
            max_steps=options.get("steps", 3),
            saving_listeners=[Evaluation(estimator, options)] if "slow_evaluation" in options else [],
        )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
