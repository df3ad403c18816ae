"""Measure Keras' ``fit`` under a strategy of one device against ``fit`` without a strategy.

Model, arrays, order and lowerings are the same. Epochs alternate in one process.
"""

import statistics
import time
from typing import Any

import numpy as np

from bench import _results
from muster import cpu
from muster._keras import keras
from muster.distribute import MirroredStrategy

BATCH = 64
BATCHES = 600
ALTERNATIONS = 10
layers = keras.layers


def cnn() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )


def mlp() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.BatchNormalization(),
            layers.Dense(10),
        ]
    )


def compiled(build: Any) -> keras.Model:
    keras.utils.set_random_seed(1)
    model = build()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, metrics=["accuracy"])
    return model


def epoch(model: keras.Model, images: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Train for an epoch, and return its seconds and its loss."""
    began = time.perf_counter()
    history = model.fit(images, labels, batch_size=BATCH, shuffle=False, verbose=0)
    return time.perf_counter() - began, history.history["loss"][0]


def main() -> dict[str, Any]:
    """Print and return the ratios to plain Keras, as medians over rounds."""
    rng = np.random.default_rng(0)
    images = rng.random((BATCH * BATCHES, 28, 28, 1), dtype=np.float32)
    labels = rng.integers(0, 10, len(images)).astype(np.int32)
    cpu.prepare()
    figures: dict[str, Any] = {}
    print("### fit under MirroredStrategy of one device, beside fit without a strategy\n")
    print(f"| model | Keras, ms a step | muster, ms a step | ratio, median of {ALTERNATIONS} |")
    print("|---|---|---|---|")
    for build in (cnn, mlp):
        plain = compiled(build)
        with MirroredStrategy(["/cpu:0"]).scope():
            ours = compiled(build)
        seconds: dict[str, list[float]] = {"Keras": [], "muster": []}
        for turn in range(ALTERNATIONS + 1):
            pair = [("Keras", plain), ("muster", ours)]
            losses = {}
            for name, model in pair if turn % 2 else reversed(pair):
                secs, losses[name] = epoch(model, images, labels)
                if turn:  # the first one compiles
                    seconds[name].append(secs / BATCHES)
            if abs(losses["Keras"] - losses["muster"]) > 1e-3:
                raise SystemExit(f"The losses of epoch {turn} differ: {losses}.")
        ratios = sorted(m / k for m, k in zip(seconds["muster"], seconds["Keras"], strict=True))
        medians = {name: 1e3 * statistics.median(each) for name, each in seconds.items()}
        figures[build.__name__] = {"ms": medians, "ratios": ratios}
        print(
            f"| {build.__name__} | {medians['Keras']:.2f} | {medians['muster']:.2f} | "
            f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}) |"
        )
    print("\nThe bar is 1.03.")
    return figures


if __name__ == "__main__":
    _results.write("fit", main())
