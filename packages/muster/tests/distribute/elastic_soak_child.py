"""A worker or the evaluator of an elastic job, or a process with all replicas. Run by test_elastic_soak.py.

Arguments: the model directory, a folder for reports, the last step, the seconds that a step takes at least,
and those that the others wait for one that stands still. Reports are those of elastic_child.py, which has the
input, too.
"""

import json
import logging
import os
import sys

from elastic_child import VIRTUAL, Report, input_fn

import muster
from muster._keras import keras
from muster.distribute import CommunicationOptions, InputContext, MultiWorkerMirroredStrategy
from muster.estimator import (
    Estimator,
    EstimatorSpec,
    EvalSpec,
    ModeKeys,
    RunConfig,
    TrainSpec,
    train_and_evaluate,
)

layers = keras.layers


def model_fn(features, labels, mode):
    muster.name_output("ids", features["id"])
    trains = mode == ModeKeys.TRAIN
    model = keras.Sequential(
        [
            layers.Dense(64, activation="relu"),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            layers.Dense(3),
        ]
    )
    logits = model(features["x"], training=trains)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)
    if not trains:
        return EstimatorSpec(mode, loss=loss)
    train_op = muster.minimize(keras.optimizers.Adam(0.01), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def main(model_dir, reports, max_steps, secs, silence_secs):
    form = "%(asctime)s.%(msecs)03d %(message)s"
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=form, datefmt="%H:%M:%S")
    strategy = MultiWorkerMirroredStrategy(
        communication_options=CommunicationOptions(timeout_seconds=float(silence_secs)),
        virtual_replicas=VIRTUAL,
        deterministic=True,
    )
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {"type": "alone", "index": 0})
    config = RunConfig(
        tf_random_seed=1, save_checkpoints_steps=50, log_step_count_steps=None, train_distribute=strategy
    )
    report = Report(os.path.join(reports, f"{task['type']}-{task['index']}"), float(secs))
    evaluation = EvalSpec(
        lambda: input_fn(InputContext(1, 0, 1)), steps=4, start_delay_secs=0, throttle_secs=3
    )
    train_and_evaluate(
        Estimator(model_fn, model_dir, config), TrainSpec(input_fn, int(max_steps), [report]), evaluation
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
