"""Rows come back in the order in which they went in, each of them once, from the devices of all workers."""

import json
from pathlib import Path

import pytest
from row_order import require_order

from jobs import Job

pytestmark = pytest.mark.processes

CHILD = Path(__file__).with_name("row_order.py")


# Three workers of several devices are many for the processors of one machine.
MANY = [pytest.param(3, devices, marks=pytest.mark.soak) for devices in (2, 3)]


@pytest.mark.samples("2-1")
@pytest.mark.parametrize(("workers", "devices"), [(2, 1), (2, 2), (2, 3), (3, 1), *MANY])
def test_rows_keep_their_order_over_workers(tmp_path, workers, devices):
    reports = [tmp_path / f"report-{index}" for index in range(workers)]
    with Job(tmp_path, [CHILD], worker=workers) as job:
        for index, report in enumerate(reports):
            job.start("worker", index, {"devices": devices, "report": str(report)})
        job.all_end_well()
    require_order(*(json.loads(report.read_text()) for report in reports))
