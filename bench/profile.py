"""Profile muster's training step: milliseconds of each XLA operation.

Usage: ``python -m bench.profile lstm``. Times do not add up to the step: a loop includes its operations, and
operations that run at the same time are each counted in full. Of what kernels hand to other threads only the
first thread's part is counted.
"""

import argparse
import collections
import gzip
import importlib
import json
import re
import tempfile
from pathlib import Path

import jax
from bench.peers import CASES

import muster
from muster._keras import keras
from muster.data import Dataset
from muster.estimator import Estimator, EstimatorSpec, SessionRunHook

WARM_UP, STEPS = 20, 20


class Trace(SessionRunHook):
    """Trace the steps after the warm-up."""

    def __init__(self, folder):
        self.folder, self.left = folder, WARM_UP + STEPS

    def before_run(self, run_context):
        if self.left == STEPS:
            run_context.session.run("loss")  # all steps so far are done
            options = jax.profiler.ProfileOptions()
            options.host_tracer_level, options.python_tracer_level = 3, 0
            jax.profiler.start_trace(self.folder, profiler_options=options)
        self.left -= 1

    def end(self, session):
        session.run("loss")
        jax.profiler.stop_trace()


def operations(name):
    """Return the milliseconds and calls per step of each operation."""
    case = importlib.import_module(f"bench.cases.{name}")

    def model_fn(features, labels, mode):
        logits = case.keras_model(keras)(features, training=True)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)
        optimizer = keras.optimizers.SGD(case.LEARNING_RATE)
        train_op = muster.minimize(optimizer, loss, muster.get_or_create_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    def input_fn():
        return (
            Dataset.from_tensor_slices(case.data(5)).batch(case.BATCH, drop_remainder=True).cache().repeat()
        )

    with tempfile.TemporaryDirectory() as folder:
        estimator = Estimator(model_fn, f"{folder}/model")
        estimator.train(input_fn, hooks=[Trace(folder)], steps=WARM_UP + STEPS)
        (path,) = Path(folder).glob("**/*.trace.json.gz")
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    found = collections.defaultdict(list)
    for event in events:
        if event.get("ph") == "X" and "hlo_op" in event.get("args", {}):
            found[event["name"]].append(event["dur"])
    return {name: (sum(each) / 1e3 / STEPS, len(each) / STEPS) for name, each in found.items()}


def joined(operations):
    """Add up the operations whose names differ by a number alone."""
    found = collections.defaultdict(lambda: (0, 0))
    for name, each in operations.items():
        kind = re.sub(r"(\.\d+)+$", "", name)
        found[kind] = tuple(map(sum, zip(found[kind], each, strict=True)))
    return found


def main():
    """Print the operations that take longest."""
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--shown", type=int, default=25, help="how many (default: %(default)s)")
    parser.add_argument(
        "--joined", action="store_true", help="add up operations of one kind, such as all products"
    )
    args = parser.parse_args()
    print("| operation | ms a step | calls |\n|---|---|---|")
    found = operations(args.case)
    ranked = sorted((joined(found) if args.joined else found).items(), key=lambda item: -item[1][0])
    for name, (spent, calls) in ranked[: args.shown]:
        print(f"| `{name}` | {spent:.2f} | {calls:.0f} |")


if __name__ == "__main__":
    main()
