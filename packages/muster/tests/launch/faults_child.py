"""A task of a job with a chief, a worker and an evaluator. Run by test_faults_soak.py.

Argument: JSON: model_dir, report (a folder where each trainer keeps the number of its last step), max_steps
(None for no end), pause (how long a step takes besides, in seconds).
"""

import json
import logging
import sys
import time
from pathlib import Path

import numpy as np

import muster
from muster import keras
from muster.data import Dataset
from muster.distribute import CommunicationOptions, MultiWorkerMirroredStrategy
from muster.estimator import (
    Estimator,
    EstimatorSpec,
    EvalSpec,
    ModeKeys,
    RunConfig,
    SessionRunHook,
    TrainSpec,
    train_and_evaluate,
)

FEATURES = np.random.default_rng(1).normal(size=(200, 4)).astype(np.float32)
LABELS = FEATURES @ np.float32([[1], [-2], [3], [0.5]]) + np.float32(0.25)


def model_fn(features, labels, mode):
    loss = keras.ops.mean((keras.layers.Dense(1)(features) - labels) ** 2)
    if mode == ModeKeys.EVAL:
        return EstimatorSpec(mode, loss=loss)
    train_op = muster.minimize(keras.optimizers.Adam(0.001), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


class Report(SessionRunHook):
    def __init__(self, path, pause):
        self.path, self.pause = path, pause

    def after_run(self, run_context, run_values):
        self.path.write_text(f"{run_context.session.global_step}\n")
        time.sleep(self.pause)


def main(options):
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    strategy = MultiWorkerMirroredStrategy(
        communication_options=CommunicationOptions(timeout_seconds=options["silence"])
    )
    config = RunConfig(tf_random_seed=1, save_checkpoints_steps=100, train_distribute=strategy)

    def train_input(input_context):
        data = Dataset.from_tensor_slices((FEATURES, LABELS))
        data = data.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
        return data.shuffle(100, seed=2).repeat().batch(8)

    def eval_input():
        return Dataset.from_tensor_slices((FEATURES, LABELS)).batch(50)

    report = Path(options["report"], f"{config.task_type}-{config.task_id}")
    train_and_evaluate(
        Estimator(model_fn, options["model_dir"], config),
        TrainSpec(train_input, options["max_steps"], hooks=[Report(report, options["pause"])]),
        EvalSpec(eval_input, steps=None, start_delay_secs=0, throttle_secs=0),
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
