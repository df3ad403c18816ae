"""A step that looks up rows of a table and trains it with momentum, and what it must compute."""

import jax.numpy as jnp
import numpy as np

from muster._keras import keras
from muster.optimizers import SGD
from muster.program import minimize
from muster.program.trace._program import Program

ROWS, UNITS, EXAMPLES = 60, 3, 8
RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((ROWS, UNITS), np.float32)
FACTORS = RNG.standard_normal((4, EXAMPLES, UNITS), np.float32)
# In the first steps each id is looked up by several examples; row 9 never is.
IDS = np.array(
    [
        [4, 7, 4, 1, 0, 4, 59, 7],
        [7, 7, 7, 7, 7, 7, 7, 7],
        [1, 2, 3, 4, 5, 6, 7, 8],
        [0, 59, 0, 59, 2, 3, 2, 3],
    ],
    np.int32,
)


def step(ids, factors):
    table = keras.Variable(TABLE, name="table")
    dense = keras.Variable(np.ones(UNITS, np.float32), name="dense")
    rows = jnp.sin(keras.ops.take(table, ids, axis=0)) * factors * dense
    minimize(SGD(0.5, momentum=0.9), jnp.mean(jnp.sum(rows, axis=-1)))
    return {"loss": jnp.mean(rows)}, None


PROGRAM = Program(step, IDS[0], FACTORS[0])


def expected():
    """Return the states after each step, computed with NumPy for the rows that were looked up."""
    table, momentum = TABLE.copy(), np.zeros_like(TABLE)
    dense, dense_momentum, states = np.ones(UNITS, np.float32), np.zeros(UNITS, np.float32), []
    for ids, factors in zip(IDS, FACTORS, strict=True):
        gradient = np.zeros_like(table)
        np.add.at(gradient, ids, np.cos(table[ids]) * factors * dense / EXAMPLES)
        of_dense = (np.sin(table[ids]) * factors).sum(0) / EXAMPLES
        looked_up = np.unique(ids)
        momentum[looked_up] = 0.9 * momentum[looked_up] - 0.5 * gradient[looked_up]
        table[looked_up] += momentum[looked_up]
        dense_momentum = 0.9 * dense_momentum - 0.5 * of_dense
        dense = dense + dense_momentum
        states.append((table.copy(), momentum.copy(), dense))
    return states


def check(state, expected):
    momentum = next(path for path in state if path.endswith("table_momentum"))
    for path, value in zip(("table", momentum, "dense"), expected, strict=True):
        np.testing.assert_allclose(state[path], value, rtol=1e-5, atol=1e-6, err_msg=path)


def check_steps(step):
    """Check the states after each step: ``step: (state, ids, factors) -> state``."""
    state = PROGRAM.initial
    for ids, factors, values in zip(IDS, FACTORS, expected(), strict=True):
        state = step(state, ids, factors)
        check(state, values)
