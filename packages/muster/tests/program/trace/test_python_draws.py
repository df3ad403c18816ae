"""Random numbers of Python that decide what a function does are drawn once for each function."""

import random

import numpy as np
import pytest

from muster import keras
from muster.distribute import MirroredStrategy, function


@pytest.mark.parametrize("draw", [random.random, np.random.random_sample])
def test_a_function_that_is_traced_again_decides_as_before(draw):
    random.seed(1)
    np.random.seed(1)
    strategy = MirroredStrategy(["/cpu:0", "/cpu:1"])
    with strategy.scope():
        seeds = keras.random.SeedGenerator(1)
    drawn = []

    def step(x):
        drawn.append(draw())
        if drawn[-1] < 0.5:  # otherwise a state would change that does not change in another trace
            x = x + keras.random.normal(x.shape, seed=seeds)
        return x

    steps = [function(lambda x: strategy.run(step, args=(x,))) for _ in range(4)]
    for each in steps:
        each(np.ones(2, np.float32))
    assert len(drawn) > len(set(drawn)) == 4

    random.seed(1)
    np.random.seed(1)
    assert set(drawn) == {draw() for _ in range(4)}
