"""A task whose input workers share. Run by test_shared_input_multiprocess.py.

Argument: JSON: model_dir, slow (seconds a step), and maybe shards (of each variable).
"""

import json
import logging
import sys
import time

from shared_input import input_fn, model_fn

from muster.distribute import FixedShardsPartitioner, ParameterServerStrategyV1
from muster.estimator import Estimator, EvalSpec, RunConfig, SessionRunHook, TrainSpec, train_and_evaluate


class Hook(SessionRunHook):
    def __init__(self, secs):
        self.secs = secs

    def after_run(self, run_context, run_values):
        print(f"step {run_context.session.global_step}\n", end="", flush=True)
        time.sleep(self.secs)


def main(options):
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    strategy = None
    if "shards" in options:
        partitioner = FixedShardsPartitioner(options["shards"])
        strategy = ParameterServerStrategyV1(variable_partitioner=partitioner)
    config = RunConfig(save_checkpoints_steps=20, train_distribute=strategy)
    estimator = Estimator(model_fn, options["model_dir"], config)
    train_and_evaluate(
        estimator, TrainSpec(input_fn, max_steps=10_000, hooks=[Hook(options["slow"])]), EvalSpec(input_fn)
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
