"""Train the guide's CNN for ``bench.recovery``, as a worker that notes its steps or takes turns.

Arguments: the folder for the notes (``WORKER.jsonl``) and the model; after how many steps to save; how long
to sleep after each step, in seconds; the number of steps in a turn, 0 to take no turns and note all steps. If
``deterministic`` follows, gradients are added replica by replica. A turn begins when the file ``turn`` has
its number, with a step that is not timed, since the workers see that one after the other; the job ends when
that is 0. A step has the same rows with any number of virtual replicas.
"""

import json
import logging
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

FOLDER, SAVE_STEPS = Path(sys.argv[1]), int(sys.argv[2])
PAUSE_SECS, TURN_STEPS = float(sys.argv[3]), int(sys.argv[4])
BATCH, BATCHES, CHECK_STEPS = 64, 80, 50
LEARNING_RATE = 0.01
WORKER = json.loads(os.environ["TF_CONFIG"])["task"]["index"]


def note(**what):
    """Write a line to this worker's notes."""
    with (FOLDER / f"{WORKER}.jsonl").open("a") as file:
        print(json.dumps(what | {"when": time.time(), "pid": os.getpid()}), file=file)


class Notes(SessionRunHook):
    """Note each step when it is done."""

    def before_run(self, run_context):
        return SessionRunArgs(["global_step", "loss"])

    def after_run(self, run_context, run_values):
        note(step=int(run_values.results[0]))
        time.sleep(PAUSE_SECS)


class Turns(SessionRunHook):
    """Note the first losses, then how long each turn takes; to read a loss waits for the steps before."""

    def __init__(self):
        self.losses, self.turn, self.left = [], 0, 0

    def before_run(self, run_context):
        reads = len(self.losses) < CHECK_STEPS or self.left in (1, TURN_STEPS + 1)
        return SessionRunArgs(["loss"]) if reads else None

    def after_run(self, run_context, run_values):
        if self.left > 1:
            self.left -= 1
            if self.left == TURN_STEPS:
                self.began, self.spent = time.perf_counter(), time.process_time()
            return
        if self.left:
            spent = time.process_time() - self.spent
            note(turn=self.turn, seconds=time.perf_counter() - self.began, processor=spent)
        else:
            self.losses.append(float(run_values.results[0]))
            if len(self.losses) < CHECK_STEPS:
                return
            note(losses=self.losses)
        self.turn += 1
        while (begun := self.begun()) not in (0, self.turn):
            time.sleep(0.02)  # the other jobs take their turns in this time
        if not begun:
            run_context.request_stop()
        self.left = TURN_STEPS + 1

    def begun(self):
        """Return what the file says, None if it says nothing."""
        try:
            return int((FOLDER / "turn").read_text())
        except (FileNotFoundError, ValueError):
            return None


def model_fn(features, labels, mode):
    """The model of bench/cases/cnn.py."""
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )
    logits = model(features, training=True)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)
    train_op = muster.minimize(keras.optimizers.SGD(LEARNING_RATE), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn(input_context):
    rng = np.random.default_rng(0)
    images = rng.random((2 * BATCH * BATCHES, 28, 28, 1), dtype=np.float32)
    data = Dataset.from_tensor_slices((images, rng.integers(0, 10, len(images)).astype(np.int32)))
    data = data.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return data.batch(2 * BATCH // input_context.num_input_pipelines, drop_remainder=True).repeat()


def main():
    log = logging.FileHandler(FOLDER / f"{WORKER}.log")
    log.setFormatter(logging.Formatter("%(created)f %(message)s"))
    logging.getLogger("muster").addHandler(log)
    logging.getLogger("muster").setLevel(logging.INFO)
    strategy = MultiWorkerMirroredStrategy(deterministic="deterministic" in sys.argv)
    config = RunConfig(tf_random_seed=1, save_checkpoints_steps=SAVE_STEPS, train_distribute=strategy)
    hook = Turns() if TURN_STEPS else Notes()
    Estimator(model_fn, str(FOLDER / "model"), config).train(input_fn, hooks=[hook])


main()
