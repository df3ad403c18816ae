"""A worker that trains until it is told to end. Run by test_interrupted_multiprocess.py.

Argument: JSON: model_dir; leave (``"exit"`` or ``"input"``: where it leaves by itself, with a text);
save_secs (how long a save takes); interrupted_at_end (whether Ctrl-C comes after the last step);
steps_per_execution, save_checkpoints_steps, max_steps, examples.
"""

import json
import logging
import signal
import sys
import time

import numpy as np

import muster
from muster import keras
from muster.checkpoint import Checkpointer
from muster.data import Dataset
from muster.distribute import MultiWorkerMirroredStrategy
from muster.estimator import Estimator, EstimatorSpec, RunConfig, SessionRunHook


def model_fn(features, labels, mode):
    loss = keras.ops.mean((keras.layers.Dense(1)(features["x"]) * features["scale"] - labels) ** 2)
    train_op = muster.minimize(keras.optimizers.SGD(0.01), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


class Interrupt(SessionRunHook):
    def end(self, session):
        signal.raise_signal(signal.SIGINT)


class Print(SessionRunHook):
    def after_run(self, run_context, run_values):
        # One write, also where Python does not buffer: other threads write into the same log.
        print(f"step {run_context.session.global_step}\n", end="", flush=True)

    def steps_until_due(self, session):
        return None


def main(options):
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    strategy = MultiWorkerMirroredStrategy()
    if options.get("leave") == "exit":
        sys.exit("there is nothing to do")

    def input_fn(input_context):
        if options.get("leave") == "input":
            sys.exit("there is nothing to do")
        x = np.arange(1, 65, dtype=np.float32).reshape(64, 1) / 64
        data = Dataset.from_tensor_slices((x, x)).shard(
            input_context.num_input_pipelines, input_context.input_pipeline_id
        )
        data = data.repeat() if "examples" not in options else data.take(options["examples"])
        # The scale comes first in a batch, and has no rows.
        return data.batch(8).map(lambda x, y: ({"scale": np.float32(1), "x": x}, y))

    save, save_secs = Checkpointer.save, options.get("save_secs", 0.0)

    def save_slowly(self, step, *args, **kwargs):
        if step:
            time.sleep(save_secs)
        return save(self, step, *args, **kwargs)

    Checkpointer.save = save_slowly
    config = RunConfig(
        train_distribute=strategy,
        save_checkpoints_steps=options.get("save_checkpoints_steps", 10**8),
        steps_per_execution=options.get("steps_per_execution", 1),
        log_step_count_steps=None,
        save_summary_steps=None,
    )
    est = Estimator(model_fn, options["model_dir"], config)
    hooks = [Print(), *([Interrupt()] if options.get("interrupted_at_end") else [])]
    est.train(input_fn, hooks=hooks, max_steps=options.get("max_steps", 10**8))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
