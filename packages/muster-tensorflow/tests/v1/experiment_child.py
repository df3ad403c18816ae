"""A task of an Experiment's job. Run by test_experiment_multiprocess.py.

Argument: JSON: model_dir, max_steps, and the schedule, a method of Experiment.
"""

import json
import logging
import sys

from line_models import dataset, model_fn, train_input

import muster_tensorflow as tf
from muster.estimator import Estimator, RunConfig, SessionRunHook


class Hook(SessionRunHook):
    def after_run(self, run_context, run_values):
        print(f"step {run_context.session.global_step}\n", end="", flush=True)


if __name__ == "__main__":
    options = json.loads(sys.argv[1])
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    config = RunConfig(tf_random_seed=1, save_checkpoints_steps=20, log_step_count_steps=None)
    experiment = tf.contrib.learn.Experiment(
        Estimator(model_fn, options["model_dir"], config),
        train_input,
        dataset,
        train_steps=options["max_steps"],
        eval_steps=None,
        train_monitors=[Hook()],
        eval_delay_secs=0,
        continuous_eval_throttle_secs=0,
    )
    getattr(experiment, options["schedule"])()
