"""Print, as JSON, through which files of muster three values go: see test_walks_multiprocess.py."""

import contextlib
import json
import os
import socket
import sys
import tempfile

import jax
import numpy as np

import muster
from muster._keras import keras
from muster.data import Dataset
from muster.distribute import MirroredStrategy, Server
from muster.estimator import (
    CheckpointSaverListener,
    Estimator,
    EstimatorSpec,
    EvalSpec,
    RunConfig,
    SessionRunHook,
    TrainSpec,
    train_and_evaluate,
)
from walks import followed

# Nothing else has so many rows.
ROWS, EXAMPLES = 37, 13


def is_of_table(value):
    shapes = (ROWS, 2), (2 * ROWS,)
    return isinstance(value, np.ndarray | jax.Array) and value.shape in shapes and value.dtype == np.float32


def is_batch(value):
    return isinstance(value, np.ndarray | jax.Array) and value.shape == (EXAMPLES, ROWS)


def model_fn(features, labels, mode):
    table = keras.Variable(np.zeros((ROWS, 2), np.float32), name="table")
    loss = keras.ops.mean((features @ table - labels) ** 2)
    step = muster.get_or_create_global_step()
    return EstimatorSpec(mode, loss=loss, train_op=muster.minimize(keras.optimizers.SGD(0.1), loss, step))


def input_fn():
    examples = np.ones((8, ROWS), np.float32), np.ones((8, 2), np.float32)
    return Dataset.from_tensor_slices(examples).repeat().batch(4)


def checkpoint():
    """Follow a variable from the moment at which a checkpoint is begun until it is written."""

    class Listener(CheckpointSaverListener):
        def before_save(self, session, global_step_value):
            if global_step_value == 3:
                self.following = contextlib.ExitStack()
                self.seen = self.following.enter_context(followed(is_of_table))

        def after_save(self, session, global_step_value):
            if global_step_value == 3:
                sys.setprofile(None)  # of this thread; the one that writes goes on

        def end(self, session, global_step_value):
            self.following.close()

    listener = Listener()
    made = Estimator(model_fn, tempfile.mkdtemp(), RunConfig(save_checkpoints_steps=3))
    made.train(input_fn, steps=5, saving_listeners=[listener])
    return listener.seen


def run():
    """Follow a batch from a distributed dataset through a step of a loop."""
    strategy = MirroredStrategy(["cpu:0"])
    with strategy.scope():
        table = keras.Variable(np.zeros((ROWS, 2), np.float32))
    examples = np.ones((EXAMPLES, ROWS), np.float32)
    dataset = Dataset.from_tensor_slices(examples).batch(EXAMPLES).repeat()
    batches = iter(strategy.experimental_distribute_dataset(dataset))

    @muster.function
    def step(batch):
        return strategy.run(lambda each: keras.ops.sum(each @ table), args=(batch,))

    for _ in range(3):
        step(next(batches))
    with followed(is_batch) as seen:
        step(next(batches))
    return seen


def gradient():
    """Follow a gradient from the chief's step to a server in this process, and into its variable."""

    class Window(SessionRunHook):
        """Follows in this thread, and in that of the server, from one step to another."""

        def __init__(self):
            self.runs = 0

        def before_run(self, run_context):
            self.runs += 1
            if self.runs == 4:
                on_server.clear()
                self.following = contextlib.ExitStack()
                self.here = self.following.enter_context(followed(is_of_table))
            elif self.runs == 6:
                self.following.close()
                self.there = set(on_server)

    cluster = {"chief": [free_address()], "ps": [free_address()]}
    os.environ["MUSTER_JOB_ID"] = "walk"
    with followed(is_of_table) as on_server:
        Server(cluster, "ps", 0)
        sys.setprofile(None)
        os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": "chief", "index": 0}})
        window = Window()
        train_and_evaluate(
            Estimator(model_fn, tempfile.mkdtemp()),
            TrainSpec(input_fn, max_steps=8, hooks=[window]),
            EvalSpec(input_fn, steps=1),
        )
    return window.here, window.there


def free_address():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


if __name__ == "__main__":
    found = {"checkpoint": checkpoint(), "run": run()}
    found["worker"], found["server"] = gradient()
    print(json.dumps({name: sorted(files) for name, files in found.items()}))
