"""A task of a job with parameter servers. Run by test_parameter_servers_multiprocess.py.

Argument: JSON: model_dir, max_steps, and any of: slow (seconds a step), epochs, stall (seconds),
makes (a file, at the first step), awaits (a file, after it, or after the global step at),
snapshot_updates, save_steps, mirrored (whether workers have no servers), dies (a file: a server makes it
when it has written half of its part of a checkpoint, and writes no more), shards (of each
variable), max_staleness, part (0 or 1: every second batch), log_steps, waits (a global step to begin
after), stops (a step, by a hook), table (whether the model has a table whose rows travel alone; "hashed"
for a hashed one).
"""

import functools
import json
import logging
import sys
import threading
import time
from pathlib import Path

import numpy as np

import muster
from muster import keras
from muster.data import Dataset
from muster.distribute import FixedShardsPartitioner, MultiWorkerMirroredStrategy, ParameterServerStrategyV1
from muster.distribute.engine import ServedState
from muster.estimator import (
    Estimator,
    EstimatorSpec,
    EvalSpec,
    GlobalStepWaiterHook,
    RunConfig,
    SessionRunHook,
    TrainSpec,
    make_stop_at_checkpoint_step_hook,
    train_and_evaluate,
)
from muster.ps import _known_workers, _shard_snapshot

X = np.random.default_rng(0).normal(size=(64, 5)).astype(np.float32)
Y = X.sum(1, keepdims=True)


def model_fn(features, labels, mode):
    outputs = keras.layers.Dense(1)(keras.layers.Dense(8)(features))
    loss = keras.ops.mean((outputs - labels) ** 2)
    train_op = muster.minimize(keras.optimizers.Adam(0.02), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def model_fn_with_table(features, labels, mode):
    """A model of a table of 1.2 MB, 64 rows of which the data look up."""
    table = keras.layers.Embedding(9000, 32, name="table")
    ids = keras.ops.cast(keras.ops.abs(features[:, 0]) * 2000, "int32")
    outputs = keras.layers.Dense(1)(keras.layers.Dense(8)(features)) + keras.layers.Dense(1)(table(ids))
    loss = keras.ops.mean((outputs - labels) ** 2)
    optimizer = keras.optimizers.Adagrad(0.05)
    train_op = muster.minimize(optimizer, loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def model_fn_with_hashed_table(features, labels, mode):
    """A model of a hashed table, which has rows for the ids of each batch."""
    table = muster.layers.HashEmbedding(4, name="table", admit_after=2)
    ids = keras.ops.cast(features * 10, "int32")
    outputs = keras.layers.Dense(1)(keras.layers.Dense(8)(keras.ops.sum(table(ids), 1)))
    loss = keras.ops.mean((outputs - labels) ** 2)
    optimizer = keras.optimizers.Adagrad(0.05)
    train_op = muster.minimize(optimizer, loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


MODEL_FNS = {False: model_fn, True: model_fn_with_table, "hashed": model_fn_with_hashed_table}


class Hook(SessionRunHook):
    def __init__(self, options):
        self.options = options

    def before_run(self, run_context):
        state = run_context.session.state
        if isinstance(state, ServedState) and "shards" in self.options:
            for server, share in enumerate(state.division.shares):
                for piece in share.pulled.pieces:
                    print(f"ps {server} holds {piece.key} {[*piece.shape]}\n", end="", flush=True)

    def after_run(self, run_context, run_values):
        step, now = run_context.session.global_step, time.monotonic_ns()
        print(f"step {step}\nmade at {now}\n", end="", flush=True)
        if "makes" in self.options:
            Path(self.options["makes"]).touch()
        if step >= self.options.get("at", 0):
            while "awaits" in self.options and not Path(self.options["awaits"]).exists():
                time.sleep(0.02)
        time.sleep(self.options.get("slow", 0.0))


def write_half(folder, file, arrays, dies):
    (Path(folder) / file).write_bytes(b"half")
    Path(dies).touch()
    threading.Event().wait()


def main(options):
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if "dies" in options:
        _shard_snapshot.write_part = functools.partial(write_half, dies=options["dies"])
    _known_workers.STALL_SECS = options.get("stall", _known_workers.STALL_SECS)
    data = Dataset.from_tensor_slices((X, Y)).batch(16)
    train_data = data.shard(2, options["part"]) if "part" in options else data
    strategy = MultiWorkerMirroredStrategy() if options.get("mirrored") else None
    if "shards" in options:
        strategy = ParameterServerStrategyV1(variable_partitioner=FixedShardsPartitioner(options["shards"]))
    config = RunConfig(
        tf_random_seed=1,
        save_checkpoints_steps=options.get("save_steps", 20),
        log_step_count_steps=options.get("log_steps"),
        snapshot_updates=options.get("snapshot_updates"),
        train_distribute=strategy,
        max_staleness=options.get("max_staleness"),
    )
    estimator = Estimator(MODEL_FNS[options.get("table", False)], options["model_dir"], config)
    hooks = [Hook(options)]
    if "waits" in options:
        hooks.append(GlobalStepWaiterHook(options["waits"]))
    if "stops" in options:
        hooks.append(make_stop_at_checkpoint_step_hook(estimator, options["stops"], 0.2))
    train_and_evaluate(
        estimator,
        TrainSpec(
            lambda: train_data.repeat(options.get("epochs")),
            max_steps=options["max_steps"],
            hooks=hooks,
        ),
        EvalSpec(lambda: data, steps=None, start_delay_secs=0, throttle_secs=0),
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
