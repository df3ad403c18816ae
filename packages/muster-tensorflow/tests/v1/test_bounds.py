"""Bounds of the values of traced code."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from muster_tensorflow.library.contrib.seq2seq._bounds import bounds_of


@pytest.mark.parametrize(
    ("compute", "low", "high"),
    [
        (lambda x, n: jnp.sum(x != 0, axis=1), 0, 6),
        (lambda x, n: jnp.max(jnp.sum(x != 0, axis=1)) * 2 + 1, 1, 13),
        (lambda x, n: jnp.round(jnp.sum(x != 0, axis=1) * 1.5).astype(int), 0, 9),
        (lambda x, n: 10 - jnp.count_nonzero(x), -2, 10),
        (lambda x, n: -jnp.argmax(x, axis=1), -5, 0),
        (lambda x, n: jnp.clip(n, 2, 5), 2, 5),
        (lambda x, n: jnp.minimum(n, 7), -math.inf, 7),
        (lambda x, n: jnp.where(x > 0, jnp.arange(6), -3), -3, 5),
        (lambda x, n: jnp.concatenate([jnp.cumsum(x > 0, axis=1)[0], jnp.array([20])]), 0, 20),
        (lambda x, n: jnp.sum(x > 0) / 4, 0, 3),
        (lambda x, n: x.astype(jnp.int8), -128, 127),
        (lambda x, n: n * 2, -math.inf, math.inf),
        (lambda x, n: jnp.sum(x > 0) // n, -math.inf, math.inf),
    ],
)
def test_bounds(compute: Callable[[jax.Array, jax.Array], jax.Array], low: float, high: float) -> None:
    found = []
    jax.make_jaxpr(lambda x, n: found.append(bounds_of(compute(x, n))))(np.zeros((2, 6), int), 3)
    assert found == [(low, high)]


def test_bounds_of_values() -> None:
    assert bounds_of(np.array([3, -1])) == (-1, 3)
    assert bounds_of(np.zeros(0)) == (-math.inf, math.inf)
