"""The chief's random numbers for all workers."""

import random
from typing import Any

import numpy as np
import pytest

from muster._keras import keras
from muster.distribute.workers._randomness import take_chiefs_randomness
from muster.program.variables.keras_internals import set_global_seed_state


class Worker:
    """One of two workers, which meets the other by a list."""

    size = 2
    share = None

    def __init__(self, told: list[Any], *, is_chief: bool) -> None:
        self._told, self.is_chief = told, is_chief

    def all_gather_object(self, value: Any) -> list[Any]:
        self._told += [value] if self.is_chief else []
        return [self._told[0], None]


def drawn(seed: int, *, draws_before: bool, worker: Worker) -> list[float]:
    """Return what a worker draws after it has met the others, whatever it has drawn before."""
    random.seed(seed)
    np.random.seed(seed)
    set_global_seed_state(None)
    if draws_before:
        keras.random.uniform(())
    take_chiefs_randomness(worker)
    return [random.random(), float(np.random.rand()), float(keras.random.uniform(())), random.random()]


@pytest.mark.parametrize("chief_draws", [False, True])
@pytest.mark.parametrize("worker_draws", [False, True])
def test_workers_draw_what_the_chief_draws(chief_draws: bool, worker_draws: bool) -> None:
    told: list[Any] = []
    chief = drawn(1, draws_before=chief_draws, worker=Worker(told, is_chief=True))
    assert drawn(2, draws_before=worker_draws, worker=Worker(told, is_chief=False)) == chief
