"""A worker of an elastic job, or a process with all of its replicas. Run by test_elastic_multiprocess.py.

Arguments: the model directory, a folder for reports, the last step, the seconds that a step takes at
least, and what else: "deterministic", "uneven", "accumulating", "noticing", "impatient", "pairs", "late"; or
"guest": it takes part in a block of ``embedded``, and the process goes on.
Steps take no longer once there is a file "go" in the folder for reports. Without a cluster one process has
all replicas. The model has dropout, batch normalization and Adam's state, and the input is shuffled anew in
each epoch, by the seed of the job. A line of a report is "<step> <loss in hexadecimal> <the examples of this
worker's batch>".
"""

import json
import logging
import os
import sys
import time

import numpy as np

import muster
from muster._keras import keras
from muster.data import Dataset
from muster.distribute import CommunicationOptions, MultiWorkerMirroredStrategy, embedded
from muster.distribute.workers import _group_agreement
from muster.estimator import Estimator, EstimatorSpec, RunConfig, SessionRunArgs, SessionRunHook

VIRTUAL = int(os.environ.get("ELASTIC_VIRTUAL", "4"))
COUNT = 61
DROPOUT = float(os.environ.get("ELASTIC_DROPOUT", "0.5"))
UNITS = os.environ.get("ELASTIC_UNITS", "64")
layers = keras.layers


def input_fn(input_context):
    rng = np.random.default_rng(0)
    features = {"id": np.arange(COUNT), "x": rng.normal(size=(COUNT, 5)).astype(np.float32)}
    data = Dataset.from_tensor_slices((features, rng.integers(0, 3, COUNT)))
    data = data.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return data.shuffle(8).batch(3 if "uneven" in sys.argv else 4, drop_remainder=False).repeat()


def model_fn(features, labels, mode):
    muster.name_output("ids", features["id"])
    model = keras.Sequential(
        [
            layers.Dense(int(UNITS), activation="relu"),
            layers.BatchNormalization(),
            layers.Dropout(DROPOUT),
            layers.Dense(300, activation="relu"),
            layers.Dense(3),
        ]
    )
    logits = model(features["x"], training=True)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)
    every = 2 if "accumulating" in sys.argv else None
    optimizer = keras.optimizers.Adam(0.01, gradient_accumulation_steps=every)
    train_op = muster.minimize(optimizer, loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


class Report(SessionRunHook):
    def __init__(self, path, secs):
        self.file = open(path, "a", buffering=1)
        self.secs = secs
        self.go = os.path.join(os.path.dirname(path), "go")

    def before_run(self, run_context):
        return SessionRunArgs(["global_step", "loss", "ids"])

    def after_run(self, run_context, run_values):
        step, loss, ids = run_values.results
        self.file.write(f"{step} {float(loss).hex()} {','.join(map(str, ids))}\n")
        print(step, flush=True)
        time.sleep(0.0 if os.path.exists(self.go) else self.secs)


def main(model_dir, reports, max_steps, secs, *options):
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(relativeCreated)d %(message)s")
    if "impatient" in options:
        _group_agreement._PATIENCE_SECS = 3.0
    if "late" in options:
        _group_agreement._LATE_SECS = 2.0
    secs_to_notice = 3 if {"impatient", "noticing"}.intersection(options) else None
    strategy = MultiWorkerMirroredStrategy(
        communication_options=CommunicationOptions(timeout_seconds=secs_to_notice),
        virtual_replicas=VIRTUAL,
        min_workers=2 if "pairs" in options else 1,
        deterministic="deterministic" in options,
    )
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {"type": "alone", "index": 0})
    config = RunConfig(
        tf_random_seed=1,
        save_checkpoints_steps=20,
        save_summary_steps=20,
        log_step_count_steps=None,
        train_distribute=strategy,
    )
    report = Report(os.path.join(reports, f"{task['type']}-{task['index']}"), float(secs))
    Estimator(model_fn, model_dir + UNITS, config).train(input_fn, hooks=[report], max_steps=int(max_steps))


def be_guest(*arguments):
    try:
        with embedded():
            main(*arguments)
    except muster.PeerLostError as exc:
        print(f"raised PeerLostError {exc}")
    print("the process goes on", flush=True)


if __name__ == "__main__":
    (be_guest if "guest" in sys.argv else main)(*sys.argv[1:])
