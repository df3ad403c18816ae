"""Measure what checkpoints cost a training: in turn with one every 100 steps, and with none."""

import statistics
import tempfile
import time
from typing import Any

import numpy as np

import muster
from bench import _results
from muster._keras import keras
from muster.data import Dataset
from muster.estimator import Estimator, EstimatorSpec, RunConfig, SessionRunHook

BATCH = 64
UNITS = 3072  # 12 million weights, 47 MB
EVERY_STEPS = 100
SAVES = 2
WARM_UP = 10
ALTERNATIONS = 10


def model_fn(features, labels, mode):
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((784,)),
            layers.Dense(UNITS, activation="relu"),
            layers.Dense(UNITS, activation="relu"),
            layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, model(features))
    train_op = muster.minimize(keras.optimizers.SGD(0.01), loss, muster.get_or_create_global_step())
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


class Clock(SessionRunHook):
    """Measure the time of the steps after the warm-up, which include SAVES checkpoints."""

    def after_create_session(self, session, coord):
        self.first = session.global_step

    def after_run(self, run_context, run_values):
        step = run_context.session.global_step - self.first
        if step in (WARM_UP, WARM_UP + SAVES * EVERY_STEPS):
            run_context.session.run("loss")
            self.began, self.ended = getattr(self, "ended", 0.0), time.perf_counter()

    @property
    def seconds(self):
        return self.ended - self.began


def seconds(estimator: Estimator) -> float:
    rng = np.random.default_rng(0)
    images = rng.random((BATCH * 20, 784), dtype=np.float32)
    labels = rng.integers(0, 10, len(images)).astype(np.int32)
    clock = Clock()
    dataset = Dataset.from_tensor_slices((images, labels)).batch(BATCH).repeat()
    estimator.train(lambda: dataset, hooks=[clock], steps=WARM_UP + SAVES * EVERY_STEPS + 1)
    return clock.seconds


def main() -> dict[str, Any]:
    """Print and return the fraction of the throughput that checkpoints cost, as a median over rounds."""
    with tempfile.TemporaryDirectory() as saved, tempfile.TemporaryDirectory() as unsaved:
        saving = Estimator(
            model_fn, saved, RunConfig(save_checkpoints_steps=EVERY_STEPS, keep_checkpoint_max=2)
        )
        plain = Estimator(
            model_fn, unsaved, RunConfig(save_checkpoints_steps=None, save_checkpoints_secs=None)
        )
        for estimator in (saving, plain):
            seconds(estimator)
        times = []
        for number in range(ALTERNATIONS):
            order = (saving, plain) if number % 2 else (plain, saving)
            taken = {estimator: seconds(estimator) for estimator in order}
            times.append((taken[saving], taken[plain]))
    costs = sorted(with_saves / without - 1 for with_saves, without in times)
    cost = statistics.median(costs)
    step_ms = 1e3 * statistics.median(without for _, without in times) / (SAVES * EVERY_STEPS)
    print("### Checkpoints of 47 MB while training\n")
    spread = f"{costs[0]:.1%} to {costs[-1]:.1%}"
    print(f"A step takes {step_ms:.1f} ms. With a checkpoint every {EVERY_STEPS} steps, the median of")
    print(f"{ALTERNATIONS} alternations is {cost:.1%} more time ({spread}). The bar is 2 %.")
    return {"step_ms": step_ms, "cost": cost, "costs": costs}


if __name__ == "__main__":
    _results.write("checkpoint_training", main())
