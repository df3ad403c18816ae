"""Measure ``fit`` of a GAN with its own ``train_step(self, data)`` against a loop over a ``muster.function``.

Networks, arrays, order and lowerings are the same; in both the code of the step is the model's own. Epochs
alternate in one process. `fit` is silent, so that callbacks take no part in steps.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import muster
from bench import _results
from muster import cpu
from muster._keras import keras

BATCH = 64
BATCHES = 300
ALTERNATIONS = 10
LATENT = 32
layers = keras.layers


class GAN(keras.Model):
    """Two networks with an optimizer each.

    Args:
        generator: Makes images of random numbers.
        discriminator: Tells whether images are real.
    """

    def __init__(self, generator: keras.Model, discriminator: keras.Model) -> None:
        super().__init__()
        self.generator, self.discriminator = generator, discriminator
        self.noise = keras.random.SeedGenerator(1)
        self.d_loss, self.g_loss = keras.metrics.Mean(name="d_loss"), keras.metrics.Mean(name="g_loss")

    @property
    def metrics(self) -> list[Any]:
        return [self.d_loss, self.g_loss]

    def compile(self, d_optimizer: Any, g_optimizer: Any, loss_fn: Any) -> None:
        super().compile()
        self.d_optimizer, self.g_optimizer, self.loss_fn = d_optimizer, g_optimizer, loss_fn

    def train_step(self, real: Any) -> dict[str, Any]:
        ops = keras.ops
        noise = keras.random.normal((ops.shape(real)[0], LATENT), seed=self.noise)
        with muster.GradientTape() as d_tape, muster.GradientTape() as g_tape:
            fake = self.generator(noise, training=True)
            of_real = self.discriminator(real, training=True)
            of_fake = self.discriminator(fake, training=True)
            d_loss = self.loss_fn(ops.ones_like(of_real), of_real)
            d_loss += self.loss_fn(ops.zeros_like(of_fake), of_fake)
            g_loss = self.loss_fn(ops.ones_like(of_fake), of_fake)
        for optimizer, network, tape, loss in (
            (self.d_optimizer, self.discriminator, d_tape, d_loss),
            (self.g_optimizer, self.generator, g_tape, g_loss),
        ):
            gradients = tape.gradient(loss, network.trainable_variables)
            optimizer.apply(gradients, network.trainable_variables)
        self.d_loss.update_state(d_loss)
        self.g_loss.update_state(g_loss)
        return {metric.name: metric.result() for metric in self.metrics}


def mlp() -> GAN:
    generator = [layers.Dense(128, activation="relu"), layers.Dense(784), layers.Reshape((28, 28, 1))]
    discriminator = [layers.Flatten(), layers.Dense(128, activation="relu"), layers.Dense(1)]
    return GAN(keras.Sequential(generator), keras.Sequential(discriminator))


def cnn() -> GAN:
    generator = [
        layers.Dense(7 * 7 * 16, activation="relu"),
        layers.Reshape((7, 7, 16)),
        layers.BatchNormalization(),
        layers.Conv2DTranspose(16, 4, strides=2, padding="same", activation="relu"),
        layers.Conv2DTranspose(1, 4, strides=2, padding="same"),
    ]
    discriminator = [
        layers.Conv2D(16, 4, strides=2, padding="same", activation="relu"),
        layers.Conv2D(16, 4, strides=2, padding="same", activation="relu"),
        layers.Flatten(),
        layers.Dense(1),
    ]
    return GAN(keras.Sequential(generator), keras.Sequential(discriminator))


def compiled(build: Callable[[], GAN]) -> GAN:
    keras.utils.set_random_seed(1)
    model = build()
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-4), keras.optimizers.Adam(1e-4), loss)
    return model


def by_fit(build: Callable[[], GAN], images: np.ndarray) -> Callable[[], tuple[float, float]]:
    """Return a function that trains for an epoch, and returns its seconds and the last mean loss."""
    model = compiled(build)

    def epoch() -> tuple[float, float]:
        began = time.perf_counter()
        history = model.fit(images, batch_size=BATCH, shuffle=False, verbose=0).history
        return time.perf_counter() - began, history["d_loss"][0]

    return epoch


def by_loop(build: Callable[[], GAN], images: np.ndarray) -> Callable[[], tuple[float, float]]:
    """Return a function that does the same in a loop over a ``muster.function``."""
    model = compiled(build)
    step = muster.function(model.train_step)

    def epoch() -> tuple[float, float]:
        began = time.perf_counter()
        for metric in model.metrics:
            metric.reset_state()
        for start in range(0, len(images), BATCH):
            logs = step(images[start : start + BATCH])
        loss = float(logs["d_loss"])
        return time.perf_counter() - began, loss

    return epoch


def main() -> dict[str, Any]:
    """Print and return the ratios to the loop, as medians over alternations."""
    images = np.random.default_rng(0).random((BATCH * BATCHES, 28, 28, 1), dtype=np.float32)
    cpu.prepare()
    figures: dict[str, Any] = {}
    print("### fit of a GAN with its own train_step, beside a loop over a muster.function\n")
    print(f"| model | loop, ms a step | fit, ms a step | ratio, median of {ALTERNATIONS} |")
    print("|---|---|---|---|")
    for build in (cnn, mlp):
        pair = [("loop", by_loop(build, images)), ("fit", by_fit(build, images))]
        seconds: dict[str, list[float]] = {"loop": [], "fit": []}
        for turn in range(ALTERNATIONS + 1):
            losses = {}
            for name, epoch in pair if turn % 2 else reversed(pair):
                secs, losses[name] = epoch()
                if turn:  # the first one compiles
                    seconds[name].append(secs / BATCHES)
            if abs(losses["loop"] - losses["fit"]) > 1e-3:
                raise SystemExit(f"The losses of epoch {turn} differ: {losses}.")
        ratios = sorted(f / n for f, n in zip(seconds["fit"], seconds["loop"], strict=True))
        medians = {name: 1e3 * statistics.median(each) for name, each in seconds.items()}
        figures[build.__name__] = {"ms": medians, "ratios": ratios}
        print(
            f"| {build.__name__} | {medians['loop']:.2f} | {medians['fit']:.2f} | "
            f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}) |",
            flush=True,
        )
    print("\nThe bar is 1.05.")
    return figures


if __name__ == "__main__":
    _results.write("own_step", main())
