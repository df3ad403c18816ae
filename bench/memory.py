"""Measure how much memory 100,000 steps of an empty model leak."""

import os
import tempfile

import numpy as np

import muster
from bench import _results
from muster._keras import keras
from muster.data import Dataset
from muster.estimator import Estimator, EstimatorSpec, RunConfig, SessionRunHook

WARM_UP = 2_000
STEPS = 100_000


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Memory(SessionRunHook):
    """Read the process' memory after the warm-up and at the end."""

    def after_run(self, run_context, run_values):
        if run_context.session.global_step == WARM_UP:
            self.before = resident_bytes()

    def end(self, session):
        self.after = resident_bytes()


def model_fn(features, labels, mode):
    w = keras.Variable(0.0, name="w")
    loss = w * 0.0
    train_op = muster.minimize(keras.optimizers.SGD(), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def main() -> dict[str, float]:
    """Print and return the growth in bytes."""
    memory = Memory()
    data = Dataset.from_tensor_slices(np.zeros((64, 1), np.float32)).shuffle(64).batch(8).repeat()
    with tempfile.TemporaryDirectory() as model_dir:
        Estimator(model_fn, model_dir, RunConfig()).train(lambda: data, [memory], max_steps=WARM_UP + STEPS)
    growth = memory.after - memory.before
    print(f"### Memory\n\n{STEPS:,} steps of an empty model: {growth / 1e6:+.2f} MB; the bar is 5 MB")
    return {"growth_bytes": growth}


if __name__ == "__main__":
    _results.write("memory", main())
