"""Reading a batch and handing it to the devices takes place while the step before is computed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from muster import function
from muster.data import Dataset
from muster.distribute import OneDeviceStrategy

pytestmark = pytest.mark.alone


def test_the_next_batch_is_handed_over_while_a_step_is_computed() -> None:
    strategy = OneDeviceStrategy("/cpu:0")
    done_before: list[bool] = []
    results: list[jax.Array] = []

    def read(row: np.ndarray) -> np.ndarray:
        done_before.append(results[-1].is_ready() if results else True)
        return row

    def long(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 200, lambda _, y: jnp.tanh(y @ x), x).sum()

    @function
    def step(x: jax.Array) -> jax.Array:
        return strategy.run(long, args=(x,))

    rows = Dataset.from_generator(lambda: map(read, np.ones((8, 256, 256), np.float32)), np.float32)
    batches = iter(strategy.experimental_distribute_dataset(rows.batch(1).map(lambda x: x[0])))
    jax.block_until_ready(step(next(batches)))  # compiled
    for batch in batches:
        results.append(step(batch))
    assert len(results) == 7
    # Batches were read, and the steps with them handed over, while the step before was computed; not always,
    # if other programs have kept the processor from this one.
    assert len(done_before) == 8
    assert not all(done_before)
