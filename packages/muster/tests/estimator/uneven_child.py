"""One of several workers that read pipelines of different lengths. Run by test_uneven_input_multiprocess.py.

Argument: JSON: model_dir, told (a file for a line of JSON a step), rows (the first and the last row of each
pipeline, and those after them), and kill_at (a step after which the worker kills itself, once that is saved).
"""

import json
import logging
import os
import signal
import sys
import time

from linear import FEATURES, LABELS, model_fn

from muster.checkpoint import latest_checkpoint
from muster.data import Dataset
from muster.distribute import MultiWorkerMirroredStrategy
from muster.estimator import Estimator, RunConfig, SessionRunArgs, SessionRunHook


class Hook(SessionRunHook):
    def __init__(self, told, kill_at, model_dir):
        self.told, self.kill_at, self.model_dir = told, kill_at, model_dir

    def before_run(self, run_context):
        return SessionRunArgs(["global_step", "loss"])

    def after_run(self, run_context, run_values):
        step, loss = (value.item() for value in run_values.results)
        with open(self.told, "a") as file:
            file.write(json.dumps([step, loss]) + "\n")
        if step == self.kill_at:
            while not (latest_checkpoint(self.model_dir) or "").endswith(f"-{step}"):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)


def main(options):
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    strategy = MultiWorkerMirroredStrategy()

    def input_fn(input_context):
        assert input_context.num_input_pipelines == len(options["rows"])
        rows = slice(*options["rows"][input_context.input_pipeline_id])
        return Dataset.from_tensor_slices((FEATURES[rows], LABELS[rows])).batch(2)

    config = RunConfig(
        tf_random_seed=1, save_checkpoints_steps=1, train_distribute=strategy, log_step_count_steps=None
    )
    hook = Hook(options["told"], options.get("kill_at"), options["model_dir"])
    Estimator(model_fn, options["model_dir"], config).train(input_fn, [hook])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
