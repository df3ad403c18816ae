"""The example's model, trained for ``bench.start`` and ``bench.recovery``; notes in a file when it did what.

Arguments: a folder, for the notes (``TASK.json``, a line each) and for the model, and how many steps to take.
"""

import json
import os
import runpy
import sys
import time
from pathlib import Path

from muster.distribute import MultiWorkerMirroredStrategy
from muster.estimator import Estimator, RunConfig, SessionRunArgs, SessionRunHook

EXAMPLE = runpy.run_path(str(Path(__file__).parent.parent / "examples" / "digits.py"))
FOLDER, STEPS = Path(sys.argv[1]), int(sys.argv[2])


def note(file, what):
    print(json.dumps({"what": what, "when": time.time(), "pid": os.getpid()}), file=file, flush=True)


class Notes(SessionRunHook):
    """Notes each step once it is done."""

    def __init__(self, file):
        self.file = file

    def before_run(self, run_context):
        return SessionRunArgs(["global_step", "loss"])

    def after_run(self, run_context, run_values):
        note(self.file, int(run_values.results[0]))


def input_fn(input_context):
    images, _, labels, _ = EXAMPLE["load_data"]()
    data = EXAMPLE["Dataset"].from_tensor_slices((images, labels))
    data = data.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return data.repeat().batch(64 // input_context.num_replicas_in_sync)


def main():
    imported = time.time()
    strategy = MultiWorkerMirroredStrategy()
    config = RunConfig(tf_random_seed=1, save_checkpoints_steps=20, train_distribute=strategy)
    with (FOLDER / f"{config.task_id}.json").open("a") as file:
        print(json.dumps({"what": "imported", "when": imported, "pid": os.getpid()}), file=file, flush=True)
        estimator = Estimator(EXAMPLE["model_fn"], str(FOLDER / "model"), config, {"max_steps": 10_000})
        estimator.train(input_fn, hooks=[Notes(file)], steps=STEPS)


main()
