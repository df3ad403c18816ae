"""Measure Keras' ``fit`` under a strategy of one device against ``fit`` without one, and a loop by hand.

Model, arrays, order and lowerings are the same; the loop runs Keras' own step under ``jax.jit``, with the
compiler options of muster. Epochs alternate in one process.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bench import _results
from muster import cpu
from muster._keras import keras
from muster.distribute import MirroredStrategy

BATCH = 64
BATCHES = 300
ALTERNATIONS = 10
layers = keras.layers


def cnn(filters: int = 32) -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(filters, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(64, activation="relu"),
            layers.Dense(10),
        ]
    )


def small_cnn() -> keras.Model:
    return cnn(5)


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


def by_fit(model: keras.Model, images: np.ndarray, labels: np.ndarray) -> Callable[[], float]:
    """Return what trains for an epoch by ``fit``, and returns its loss."""

    def epoch() -> float:
        history = model.fit(images, labels, batch_size=BATCH, shuffle=False, verbose=0)
        return history.history["loss"][0]

    return epoch


def by_hand(model: keras.Model, images: np.ndarray, labels: np.ndarray) -> Callable[[], float]:
    """Return what trains for an epoch in a loop over the batches, and returns its loss."""
    model._symbolic_build(data_batch=(images[:BATCH], labels[:BATCH]))
    groups = (
        model.trainable_variables,
        model.non_trainable_variables,
        model.optimizer.variables,
        model.metrics_variables,
    )
    state = tuple([jnp.array(variable.value) for variable in group] for group in groups)
    text = jax.jit(model.train_step).lower(state, (images[:BATCH], labels[:BATCH])).as_text()
    step = jax.jit(model.train_step, donate_argnums=0, compiler_options=cpu.compiler_options(text))

    def epoch() -> float:
        nonlocal state
        state = (*state[:-1], [jnp.zeros_like(each) for each in state[-1]])
        for start in range(0, len(images), BATCH):
            rows = slice(start, start + BATCH)
            logs, state = step(state, (images[rows], labels[rows]))
        return float(logs["loss"])

    return epoch


def main() -> dict[str, Any]:
    """Print and return the ratios to plain Keras, as medians over rounds."""
    rng = np.random.default_rng(0)
    images = rng.random((BATCH * BATCHES, 28, 28, 1), dtype=np.float32)
    labels = rng.integers(0, 10, len(images)).astype(np.int32)
    cpu.prepare()
    figures: dict[str, Any] = {}
    print("### fit under MirroredStrategy of one device, beside fit without a strategy and a loop by hand\n")
    print("| model | by hand, ms a step | Keras | muster | muster over Keras | muster over by hand |")
    print("|---|---|---|---|---|---|")
    for build in (cnn, small_cnn, mlp):
        with MirroredStrategy(["/cpu:0"]).scope():
            ours = compiled(build)
        epochs = {
            "by hand": by_hand(compiled(build), images, labels),
            "Keras": by_fit(compiled(build), images, labels),
            "muster": by_fit(ours, images, labels),
        }
        seconds: dict[str, list[float]] = {name: [] for name in epochs}
        for turn in range(ALTERNATIONS + 1):
            losses = {}
            for name in sorted(epochs, reverse=bool(turn % 2)):
                began = time.perf_counter()
                losses[name] = epochs[name]()
                if turn:  # the first one compiles
                    seconds[name].append((time.perf_counter() - began) / BATCHES)
            # Later on, roundings of `fit` without a strategy, compiled with other options, may have grown.
            compared = [losses["by hand"], losses["muster"], *([] if turn else [losses["Keras"]])]
            if max(compared) - min(compared) > 1e-3:
                raise SystemExit(f"The losses of epoch {turn} differ: {losses}.")
        ratios = {
            name: sorted(ours / other for ours, other in zip(seconds["muster"], seconds[name], strict=True))
            for name in ("Keras", "by hand")
        }
        medians = {name: 1e3 * statistics.median(each) for name, each in seconds.items()}
        figures[build.__name__] = {"ms": medians, "ratios": ratios}
        columns = [f"{medians[name]:.2f}" for name in ("by hand", "Keras", "muster")]
        columns += [
            f"{statistics.median(each):.3f} ({each[0]:.3f} to {each[-1]:.3f})" for each in ratios.values()
        ]
        print(f"| {build.__name__} | {' | '.join(columns)} |")
    print("\nThe bar is 1.03.")
    return figures


if __name__ == "__main__":
    _results.write("fit", main())
