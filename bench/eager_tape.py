"""Measure a step of a two-layer MLP by an eager tape against JAX's own eager ``value_and_grad`` of it.

Values, operations and loss are the same; the tape's variables are Keras'. Turns alternate in one process.
With TensorFlow 2.15 in ``.peers/tensorflow`` its own eager tape takes part, in a process of its own.
"""

import json
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import muster
from bench import _results
from muster._keras import keras

STEPS = 30
ALTERNATIONS = 10
SHAPES = ((20, 64), (64,), (64, 4), (4,))
PEER = Path(__file__).parents[1] / ".peers" / "tensorflow" / "bin" / "python"


def main() -> dict[str, Any]:
    """Print and return times of a step, and the ratio to JAX's, as medians over alternations."""
    generator = np.random.default_rng(0)
    x = jnp.asarray(generator.random((64, 20)), jnp.float32)
    y = jnp.asarray(generator.integers(0, 4, 64))
    parameters = [jnp.asarray(0.1 * generator.normal(size=shape), jnp.float32) for shape in SHAPES]
    variables = [keras.Variable(value) for value in parameters]

    def loss(values: list[Any]) -> jax.Array:
        hidden = jax.nn.relu(x @ values[0] + values[1])
        logits = jax.nn.log_softmax(hidden @ values[2] + values[3])
        return -jnp.mean(jnp.take_along_axis(logits, y[:, None], axis=1))

    def by_jax() -> Any:
        return jax.value_and_grad(loss)(parameters)

    def by_tape() -> Any:
        with muster.GradientTape() as tape:
            value = loss([variable.value for variable in variables])
        return value, tape.gradient(value, variables)

    for one, other in zip(jax.tree.leaves(by_jax()), jax.tree.leaves(by_tape()), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    ways = {"jax": by_jax, "tape": by_tape}
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(ALTERNATIONS + 1):
        for name, step in ways.items():
            secs = seconds_of(step)
            if turn:  # the first one compiles
                times[name].append(secs)
    ratios = sorted(tape / own for tape, own in zip(times["tape"], times["jax"], strict=True))
    figures = {name: 1e3 * statistics.median(each) for name, each in times.items()}
    print("### A step of a two-layer MLP in eager code\n")
    print(f"| JAX's value_and_grad, ms | muster's tape, ms | ratio, median of {ALTERNATIONS} |")
    print("|---|---|---|")
    print(
        f"| {figures['jax']:.2f} | {figures['tape']:.2f} | "
        f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) |"
    )
    if PEER.exists():
        script = Path(__file__).parent / "_peers" / "eager_tape.py"
        done = subprocess.run([PEER, script], capture_output=True, text=True, check=True)
        figures["tensorflow"] = json.loads(done.stdout.splitlines()[-1])
        print(f"\nTensorFlow's eager tape: {figures['tensorflow']:.2f} ms.")
    print("\nThe bar is 3.")
    return {"ms": figures, "ratios": ratios}


def seconds_of(step: Callable[[], Any]) -> float:
    """Return the mean time of a step."""
    began = time.perf_counter()
    for _ in range(STEPS):
        jax.block_until_ready(step())
    return (time.perf_counter() - began) / STEPS


if __name__ == "__main__":
    _results.write("eager_tape", main())
