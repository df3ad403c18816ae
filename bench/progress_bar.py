"""Measure what the bar on a terminal costs: steps of about a millisecond, with it and without it, in turn.

Standard error is a pseudo-terminal that is read as a terminal is. Without the bar it is one that cannot move
the cursor. The time is that between two steps within a training: compiling and saving take no part.
"""

import os
import pty
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import muster
from bench import _results
from muster import keras
from muster.data import Dataset
from muster.estimator import Estimator, EstimatorSpec, RunConfig, SessionRunHook

ALTERNATIONS = 10
STEPS = 1500
FIRST = 150  # from which step on time is measured
WIDTH, LAYERS, ROWS = 256, 3, 64
BAR = 0.01


class Timer(SessionRunHook):
    """Measures the time from step `FIRST` to the last."""

    def __init__(self) -> None:
        self.began = self.secs = 0.0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        step = run_context.session.steps_taken
        if step == FIRST or step == STEPS:
            run_context.session.run("loss")  # waits for all steps before
            self.began, self.secs = time.perf_counter(), time.perf_counter() - self.began


def model_fn(features: Any, labels: Any, mode: Any) -> EstimatorSpec:
    hidden = [keras.layers.Dense(WIDTH, activation="relu") for _ in range(LAYERS)]
    logits = keras.Sequential([*hidden, keras.layers.Dense(10)])(features)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)
    train_op = muster.minimize(keras.optimizers.SGD(0.01), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


@contextmanager
def terminal() -> Iterator[list[bytes]]:
    """Make standard error a terminal; yields what was written to it."""
    ours, theirs = pty.openpty()
    before, found = sys.stderr, list[bytes]()

    def read() -> None:
        while True:
            try:
                found.append(os.read(ours, 1 << 12))
            except OSError:
                return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    with open(theirs, "w", buffering=1, encoding="utf-8") as sys.stderr:
        try:
            yield found
        finally:
            sys.stderr = before
    reader.join()
    os.close(ours)


def ms_per_step(estimator: Estimator, input_fn: Any, *, bar: bool) -> float:
    os.environ["TERM"] = "xterm" if bar else "dumb"
    timer = Timer()
    with terminal() as written:
        estimator.train(input_fn, [timer], steps=STEPS)
    if bar != (b"steps/s" in b"".join(written)):
        raise RuntimeError(f"The bar was {'not ' if bar else ''}shown: {written[-3:]}")
    return 1e3 * timer.secs / (STEPS - FIRST)


def main() -> dict[str, Any]:
    """Print and return the milliseconds of a step."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(ROWS, WIDTH)).astype("float32")
    labels = rng.integers(0, 10, ROWS).astype("int32")
    found: dict[str, list[float]] = {"without": [], "with": []}
    with tempfile.TemporaryDirectory() as folder:
        estimator = Estimator(model_fn, folder, RunConfig(save_checkpoints_steps=10**9))
        for turn in range(ALTERNATIONS + 1):
            for name in found if turn % 2 else reversed(found):
                each = ms_per_step(
                    estimator,
                    lambda: Dataset.from_tensor_slices((features, labels)).repeat().batch(ROWS),
                    bar=name == "with",
                )
                if turn:  # the first compiles
                    found[name].append(each)
    ratio = statistics.median(a / b for a, b in zip(found["with"], found["without"], strict=True))
    print("| | ms a step, the median | from | to |\n|---|---|---|---|")
    for name, times in found.items():
        print(f"| {name} a bar | {statistics.median(times):.4f} | {min(times):.4f} | {max(times):.4f} |")
    print(f"\nWith a bar a step takes {ratio:.4f} of the time, in the median of {ALTERNATIONS} turns.")
    print(f"The bar is {1 + BAR}.")
    return {"ms_per_step": found, "ratio": ratio, "steps": STEPS}


if __name__ == "__main__":
    _results.write("progress_bar", main())
