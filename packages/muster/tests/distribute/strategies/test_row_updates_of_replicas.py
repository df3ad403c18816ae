"""MirroredStrategy updates the rows of a table that any replica looked up, as one device does."""

import numpy as np
import pytest
from program_steps import started

from muster.distribute import MirroredStrategy
from muster.program.trace._program import Program
from sparse_steps import FACTORS, IDS, check_steps, step


@pytest.mark.parametrize("count", [2, 3])  # 3 replicas have different numbers of the 8 examples
def test_replicas_update_rows_as_one_device_does(count):
    program = Program(lambda batch: step(*batch), (IDS[0], FACTORS[0]))
    start, run = started(MirroredStrategy([f"/cpu:{i}" for i in range(count)]), program)
    held = [start]

    def one(_, *batch):
        held.append(run(held.pop(), batch)[0])
        return held[0]

    check_steps(one)


@pytest.mark.parametrize("count", [1, 2])
def test_a_gradient_of_nan_changes_its_own_elements_alone(count):
    """As TensorFlow 2.15.1 applies [[nan, 1], [1, 1]] to the rows 1 and 3: one element becomes NaN."""
    program = Program(lambda batch: step(*batch), (IDS[0], FACTORS[0]))
    start, run = started(MirroredStrategy([f"/cpu:{i}" for i in range(count)]), program)
    before = np.asarray(start["table"])
    factors = FACTORS[0].copy()
    factors[3, 1] = np.nan  # row 1
    table = np.asarray(run(start, (IDS[0], factors))[0]["table"])
    np.testing.assert_array_equal(np.argwhere(np.isnan(table)), [[1, 1]])
    changed = np.flatnonzero((table != before).any(1))
    np.testing.assert_array_equal(changed, np.unique(IDS[0]))
