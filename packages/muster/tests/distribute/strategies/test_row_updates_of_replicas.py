"""MirroredStrategy updates the rows of a table that any replica looked up, as one device does."""

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
