"""Measure a training step that looks up rows of an embedding table, for tables of 10^5 and of 10^6 rows."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import muster_tensorflow as tf
from bench import _results
from muster._keras import keras
from muster.program.trace import Program

TABLES = (10**5, 10**6)
UNITS, EXAMPLES, IDS = 16, 256, 8
ROUNDS, STEPS = 40, 4

train, legacy = tf.compat.v1.train, tf.keras.optimizers.legacy
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "GradientDescentOptimizer": lambda: train.GradientDescentOptimizer(0.1),
    "MomentumOptimizer": lambda: train.MomentumOptimizer(0.1, 0.9),
    "AdagradOptimizer": lambda: train.AdagradOptimizer(0.1),
    "RMSPropOptimizer": lambda: train.RMSPropOptimizer(0.1),
    "FtrlOptimizer": lambda: train.FtrlOptimizer(0.1),
    "legacy.SGD, momentum": lambda: legacy.SGD(0.1, momentum=0.9),
    "AdamOptimizer, which updates all rows": lambda: train.AdamOptimizer(0.1),
}


class Contestant:
    """An optimizer on a table of some size."""

    def __init__(self, make: Callable[[], Any], rows: int) -> None:
        def step(ids: jax.Array) -> tuple[dict[str, Any], None]:
            table = keras.Variable(np.zeros((rows, UNITS), np.float32), name="table")
            sums = jnp.sum(keras.ops.take(table, ids, axis=0), axis=(1, 2))
            make().minimize(jnp.mean((sums - 1) ** 2), var_list=[table])
            return {}, None

        rng = np.random.default_rng(0)
        self._ids = [rng.integers(0, rows, (EXAMPLES, IDS)).astype(np.int32) for _ in range(STEPS)]
        program = Program(step, self._ids[0])
        self._state = program.initial
        run = jax.jit(lambda state, ids: program.step(state, ids)[0], donate_argnums=0)
        self._run = run.lower(self._state, self._ids[0]).compile()

    def seconds(self) -> float:
        """Return the seconds of a step."""
        start = time.perf_counter()
        for ids in self._ids:
            self._state = self._run(self._state, ids)
        jax.block_until_ready(self._state)
        return (time.perf_counter() - start) / STEPS


def main() -> dict[str, Any]:
    """Print and return the time of a step, by optimizer and size of the table."""
    print(f"### A step that looks up {EXAMPLES} x {IDS} rows of {UNITS} features\n")
    print(f"| optimizer | {' | '.join(f'{rows:,} rows, ms' for rows in TABLES)} | times as long |")
    print("|---" * (len(TABLES) + 2) + "|")
    figures: dict[str, Any] = {}
    for name, make in OPTIMIZERS.items():
        contestants = {rows: Contestant(make, rows) for rows in TABLES}
        times: dict[int, list[float]] = {rows: [] for rows in TABLES}
        for _ in range(ROUNDS):
            for rows, contestant in contestants.items():
                times[rows].append(1e3 * contestant.seconds())
        small, large = (statistics.median(times[rows]) for rows in TABLES)
        figures[name] = {
            "ms": {str(rows): statistics.median(times[rows]) for rows in TABLES},
            "least_ms": {str(rows): min(times[rows]) for rows in TABLES},
        }
        print(f"| {name} | {small:.2f} | {large:.2f} | {large / small:.2f} |", flush=True)
    return {"figures": figures}


if __name__ == "__main__":
    _results.write("row_updates", main())
