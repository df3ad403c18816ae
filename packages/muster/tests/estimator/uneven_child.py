"""One of two workers that read 12 and 3 batches, once. Run by test_uneven_input_multiprocess.py.

Argument: JSON: model_dir, told (a file for a line of JSON a step), more (which worker has 12), and kill_at (a
step after which the worker kills itself, once that step is saved).
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

ROWS = ((0, 24), (24, 30))  # two a batch


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
        rows = slice(*ROWS[input_context.input_pipeline_id != options["more"]])
        return Dataset.from_tensor_slices((FEATURES[rows], LABELS[rows])).batch(2)

    config = RunConfig(
        tf_random_seed=1, save_checkpoints_steps=1, train_distribute=strategy, log_step_count_steps=None
    )
    hook = Hook(options["told"], options.get("kill_at"), options["model_dir"])
    Estimator(model_fn, options["model_dir"], config).train(input_fn, [hook])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
