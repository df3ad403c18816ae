"""Measure a step under the Estimator and in a custom loop, against a hand-written jit loop.

Model, arrays, order, lowerings and compiler options are equal for all. The arrays are in memory. Loops slice
their batches, as a user would: ``images[at : at + 64]``, a view, in order, ``images[order[at : at + 64]]``
shuffled. The Estimator reads the arrays through a Dataset; its one training pauses while the others take
turns. A turn is divided into parts, which the others take in every order, because the machine's speed changes
from turn to turn by more than the differences to measure.
"""

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import muster
from bench import _results
from muster import cpu
from muster._keras import keras
from muster.data import Dataset
from muster.distribute import MirroredStrategy
from muster.estimator import Estimator, EstimatorSpec, SessionRunHook

BATCH = 64
BATCHES = 600
TURN = 150
PART = 15
ALTERNATIONS = 20
BY_HAND, ESTIMATOR, FUNCTION, RUN = "jit loop", "Estimator.train", "muster.function", "strategy.run"


def build() -> keras.Model:
    layers = keras.layers
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


def loss_of(logits, labels):
    each = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)(labels, logits)
    return jnp.sum(each) * (1.0 / BATCH)


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    images = rng.random((BATCH * BATCHES, 28, 28, 1), dtype=np.float32)
    return images, rng.integers(0, 10, len(images)).astype(np.int32)


class Batches:
    """The batches of a loop, repeated: views of the arrays, or rows gathered at random."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, shuffled: bool) -> None:
        self.images, self.labels = images, labels
        self.order = np.random.default_rng(0).permutation(len(images)) if shuffled else None
        self.taken = 0

    def next(self) -> tuple[np.ndarray, np.ndarray]:
        at = self.taken % BATCHES * BATCH
        self.taken += 1
        rows = slice(at, at + BATCH) if self.order is None else self.order[at : at + BATCH]
        return self.images[rows], self.labels[rows]


def by_hand(batches: Batches) -> Callable[[], float]:
    """Build the loop that a user would write in JAX; return a function that times a part of a turn."""
    model = build()
    state = [jnp.array(v.value) for v in model.trainable_variables]

    def step(weights, images, labels):
        def loss(weights):
            logits, _ = model.stateless_call(weights, [], images)
            return loss_of(logits, labels)

        value, grads = jax.value_and_grad(loss)(weights)
        return [w - 0.01 * g for w, g in zip(weights, grads, strict=True)], value

    cpu.prepare()
    lowered = jax.jit(step, donate_argnums=0).lower(state, *batches.next())
    compiled = jax.jit(step, donate_argnums=0, compiler_options=cpu.compiler_options(lowered.as_text()))

    def turn() -> float:
        nonlocal state
        began = time.perf_counter()
        for _ in range(PART):
            state, loss = compiled(state, *batches.next())
        float(loss)
        return time.perf_counter() - began

    return turn


def in_custom_loop(batches: Batches) -> Callable[[], float]:
    """Build the same step as a ``muster.function`` with a tape and an optimizer."""
    model, optimizer = build(), keras.optimizers.SGD(0.01)

    @muster.function
    def step(images, labels):
        with muster.GradientTape() as tape:
            loss = loss_of(model(images), labels)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        return loss

    def turn() -> float:
        began = time.perf_counter()
        for _ in range(PART):
            loss = step(*batches.next())
        float(loss)
        return time.perf_counter() - began

    return turn


def under_a_strategy(batches: Batches) -> Callable[[], float]:
    """Build the same step as a ``muster.function`` that runs it on the one replica of a MirroredStrategy."""
    strategy = MirroredStrategy()
    with strategy.scope():
        model, optimizer = build(), keras.optimizers.SGD(0.01)

    def on_replica(images, labels):
        with muster.GradientTape() as tape:
            loss = loss_of(model(images), labels)
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        return loss

    @muster.function
    def step(images, labels):
        return strategy.reduce("SUM", strategy.run(on_replica, (images, labels)), axis=None)

    def turn() -> float:
        began = time.perf_counter()
        for _ in range(PART):
            loss = step(*batches.next())
        float(loss)
        return time.perf_counter() - began

    return turn


class Turns(SessionRunHook):
    """Time the Estimator's turns, and let others take theirs in between.

    Args:
        others: Functions that time a part of a turn, by name.

    Attributes:
        seconds: The seconds of each turn after the first, which compiles, by name.
    """

    def __init__(self, others: dict[str, Callable[[], float]]) -> None:
        self.others = others
        self.orders = itertools.cycle(itertools.permutations(others))
        self.seconds: dict[str, list[float]] = {name: [] for name in (ESTIMATOR, *others)}

    def after_create_session(self, session, coord):
        self.began, self.round = time.perf_counter(), 0

    def after_run(self, run_context, run_values):
        session = run_context.session
        if session.steps_taken % TURN:
            return
        session.run("loss")
        found = {ESTIMATOR: time.perf_counter() - self.began, **dict.fromkeys(self.others, 0.0)}
        for order in itertools.islice(self.orders, TURN // PART):
            for name in order:
                found[name] += self.others[name]()
        if self.round:
            for name, each in found.items():
                self.seconds[name].append(each)
        self.round += 1
        self.began = time.perf_counter()


def measure(images: np.ndarray, labels: np.ndarray, shuffled: bool) -> dict[str, list[float]]:
    """Return the seconds per step of each turn, by contestant."""

    def model_fn(features, labels, mode):
        loss = loss_of(build()(features), labels)
        train_op = muster.minimize(keras.optimizers.SGD(0.01), loss, muster.get_or_create_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    def input_fn():
        dataset = Dataset.from_tensor_slices((images, labels))
        return (dataset.shuffle(len(images)) if shuffled else dataset).repeat().batch(BATCH)

    turns = Turns(
        {
            BY_HAND: by_hand(Batches(images, labels, shuffled)),
            FUNCTION: in_custom_loop(Batches(images, labels, shuffled)),
            RUN: under_a_strategy(Batches(images, labels, shuffled)),
        }
    )
    with tempfile.TemporaryDirectory() as model_dir:
        Estimator(model_fn, model_dir).train(input_fn, hooks=[turns], steps=(ALTERNATIONS + 1) * TURN)
    return {name: [each / TURN for each in seconds] for name, seconds in turns.seconds.items()}


def main() -> dict[str, Any]:
    """Print and return the ratios to the hand-written loop, as medians over rounds."""
    images, labels = data()
    print("### A step in a jit loop written by hand, under the Estimator and in a custom loop\n")
    figures: dict[str, Any] = {}
    for order in ("in order", "shuffled"):
        times = measure(images, labels, order == "shuffled")
        print(f"| {order} | ms a step | over the jit loop, median of {ALTERNATIONS} |\n|---|---|---|")
        for name in (BY_HAND, ESTIMATOR, FUNCTION, RUN):
            seconds = times[name]
            ratios = sorted(ours / theirs for ours, theirs in zip(seconds, times[BY_HAND], strict=True))
            figures[f"{name}, {order}"] = {"ms": 1e3 * statistics.median(seconds), "ratios": ratios}
            print(
                f"| {name} | {1e3 * statistics.median(seconds):.2f} | {statistics.median(ratios):.3f} "
                f"({ratios[0]:.3f} to {ratios[-1]:.3f}) |"
            )
        print()
    print("The bar is 1.03.")
    return figures


if __name__ == "__main__":
    _results.write("train_step", main())
