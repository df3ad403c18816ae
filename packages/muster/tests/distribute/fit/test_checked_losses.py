"""When `fit` looks at the losses of its steps for NaN, without a model."""

import contextlib
import math

import pytest

from muster.distribute.engine._placement import Placement
from muster.distribute.fit._fit_step import KerasFunction


class Loss:
    """A loss that a device computes: the last steps are under way, and to read them is to wait."""

    taken, under_way = 0, 0

    def __init__(self, number, waited, nan):
        self.number, self.waited, self.value = number, waited, math.nan if nan else 1.0

    def is_ready(self):
        return self.number <= Loss.taken - Loss.under_way

    def __float__(self):
        if not self.is_ready():
            self.waited.append(Loss.taken)
        return self.value


def take(steps, under_way, nan_from=math.inf):
    """Take steps; return after which ones a loss was waited for, and after which NaN was explained."""
    waited, explained = [], []
    Loss.taken, Loss.under_way = 0, under_way

    def step(state, reads, batch):
        Loss.taken += 1
        return [], {"loss": Loss(Loss.taken, waited, nan=batch >= nan_from)}

    function = KerasFunction(
        lambda: [],
        next,
        step,
        lambda state: state,
        Placement(None),
        1,
        None,
        lambda state, batch: explained.append((batch, Loss.taken)),
        contextlib.nullcontext(),
        concatenates=False,
        others=list,
        loop=lambda: None,
    )
    state, batches = [], iter(range(1, steps + 1))
    for _ in range(steps):
        _, state = function(state, batches)
    return waited, explained


def test_a_loss_is_waited_for_only_far_behind():
    assert take(200, under_way=0)[0] == []
    assert take(200, under_way=30)[0] == []
    assert take(200, under_way=1000)[0] == [64, 96, 128, 160, 192]


@pytest.mark.parametrize(("under_way", "after"), [(0, 16), (1000, 64)])
def test_nan_is_explained_by_the_batch_that_brought_it(under_way, after):
    assert take(after, under_way, nan_from=5)[1] == [(5, after)]
