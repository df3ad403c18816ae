"""On servers, too, an update of a table changes the rows that were looked up."""

import pytest
from machine_servers import MachineServers

from muster.distribute.engine._flat_arrays import RowRange
from sparse_steps import FACTORS, IDS, PROGRAM, ROWS, check_steps


@pytest.mark.parametrize(
    ("placed", "count"),
    [({}, 1), ({"table": [RowRange(0, 0, 20), RowRange(1, 20, ROWS)]}, 2)],
    ids=["whole", "divided"],
)
def test_on_servers(placed, count):
    servers = MachineServers(PROGRAM, placed, count, IDS[0], FACTORS[0])

    def one(state, ids, factors):
        servers.step(ids, factors)
        return servers.values()

    check_steps(one)
