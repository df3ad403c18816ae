"""Rows come back in the order in which they went in, each of them once, from the devices of a process."""

import pytest
from row_order import require_order, seen

from muster.distribute import MirroredStrategy


@pytest.mark.samples("2")
@pytest.mark.parametrize("devices", [1, 2, 3])
def test_rows_keep_their_order_on_devices(devices):
    require_order(seen(MirroredStrategy([f"/cpu:{device}" for device in range(devices)])))
