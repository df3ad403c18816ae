"""What a step costs under the Estimator and in a custom loop, beside a jit loop written by hand.

Model, arrays, order, lowerings and options of the compiler are the same for all."""

import statistics
import tempfile
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import muster
from bench import _results
from muster import cpu
from muster._keras import keras
from muster.data import Dataset
from muster.estimator import Estimator, EstimatorSpec, RunConfig, SessionRunHook

BATCH = 64
WARM_UP = 100
STEPS = 500
ALTERNATIONS = 10


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
    images = rng.random((BATCH * (WARM_UP + STEPS), 28, 28, 1), dtype=np.float32)
    return images, rng.integers(0, 10, len(images)).astype(np.int32)


class ByHand:
    """The loop that a user would write in JAX."""

    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        model = build()
        self.images, self.labels = images, labels
        self.state = [jnp.array(v.value) for v in model.trainable_variables]

        def step(weights, images, labels):
            def loss(weights):
                logits, _ = model.stateless_call(weights, [], images)
                return loss_of(logits, labels)

            value, grads = jax.value_and_grad(loss)(weights)
            return [w - 0.01 * g for w, g in zip(weights, grads, strict=True)], value

        cpu.prepare()
        plain = jax.jit(step, donate_argnums=0)
        lowered = plain.lower(self.state, images[:BATCH], labels[:BATCH])
        self.step = jax.jit(step, donate_argnums=0, compiler_options=cpu.compiler_options(lowered.as_text()))

    def seconds_per_step(self) -> float:
        for i in range(WARM_UP + STEPS):
            if i == WARM_UP:
                jax.block_until_ready(self.state)
                began = time.perf_counter()
            at = i * BATCH
            images, labels = self.images[at : at + BATCH], self.labels[at : at + BATCH]
            self.state, loss = self.step(self.state, images, labels)
        jax.block_until_ready((self.state, loss))
        return (time.perf_counter() - began) / STEPS


class Clock(SessionRunHook):
    """Takes the time from the end of the warm-up to the last step."""

    def before_run(self, run_context):
        if run_context.session.global_step - self.first == WARM_UP:
            run_context.session.run("loss")
            self.began = time.perf_counter()

    def after_create_session(self, session, coord):
        self.first = session.global_step

    def end(self, session):
        session.run("loss")
        self.seconds = (time.perf_counter() - self.began) / STEPS


class UnderEstimator:
    """The same step through ``Estimator.train`` with its default hooks."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, model_dir: str) -> None:
        def model_fn(features, labels, mode):
            loss = loss_of(build()(features), labels)
            train_op = muster.minimize(keras.optimizers.SGD(0.01), loss, muster.get_or_create_global_step())
            return EstimatorSpec(mode, loss=loss, train_op=train_op)

        self.estimator = Estimator(model_fn, model_dir, RunConfig())
        self.dataset = Dataset.from_tensor_slices((images, labels)).batch(BATCH)

    def seconds_per_step(self) -> float:
        clock = Clock()
        self.estimator.train(lambda: self.dataset, hooks=[clock], steps=WARM_UP + STEPS)
        return clock.seconds


class InCustomLoop:
    """The same step as a ``muster.function`` with a tape and an optimizer."""

    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        model, optimizer = build(), keras.optimizers.SGD(0.01)
        self.images, self.labels = images, labels

        def step(images, labels):
            with muster.GradientTape() as tape:
                loss = loss_of(model(images), labels)
            grads = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(grads, model.trainable_variables, strict=True))
            return loss

        self.step = muster.function(step)

    def seconds_per_step(self) -> float:
        loss = 0.0
        for i in range(WARM_UP + STEPS):
            if i == WARM_UP:
                float(loss)
                began = time.perf_counter()
            at = i * BATCH
            loss = self.step(self.images[at : at + BATCH], self.labels[at : at + BATCH])
        float(loss)
        return (time.perf_counter() - began) / STEPS


def main() -> dict[str, Any]:
    """Print and return the ratios to the loop written by hand, as medians of alternations."""
    images, labels = data()
    with tempfile.TemporaryDirectory() as model_dir:
        contestants = {
            "jit loop": ByHand(images, labels),
            "Estimator.train": UnderEstimator(images, labels, model_dir),
            "muster.function": InCustomLoop(images, labels),
        }
        times: dict[str, list[float]] = {name: [] for name in contestants}
        for number in range(ALTERNATIONS):
            order = list(contestants) if number % 2 else list(reversed(contestants))
            for name in order:
                times[name].append(contestants[name].seconds_per_step())
    print("### A step in a jit loop written by hand, under the Estimator and in a custom loop\n")
    print(f"| | ms a step | over the jit loop, median of {ALTERNATIONS} |\n|---|---|---|")
    figures: dict[str, Any] = {}
    for name, seconds in times.items():
        ratios = sorted(ours / by_hand for ours, by_hand in zip(seconds, times["jit loop"], strict=True))
        figures[name] = {"ms": 1e3 * statistics.median(seconds), "ratios": ratios}
        print(
            f"| {name} | {1e3 * statistics.median(seconds):.2f} | {statistics.median(ratios):.3f} "
            f"({ratios[0]:.3f} to {ratios[-1]:.3f}) |"
        )
    print("\nThe bar is 1.03.")
    return figures


if __name__ == "__main__":
    _results.write("train_step", main())
