"""Workers together train as one device does: see test_conformance.py."""

import json
from pathlib import Path

import numpy as np
import pytest
from conformance import CASES, EPOCHS, Y, by_keras, check_same
from conformance_loops import by_hand

from jobs import Job

pytestmark = pytest.mark.processes

CHILD = Path(__file__).with_name("conformance_child.py")


@pytest.fixture(scope="module", params=[2, 3])
def job(request, tmp_path_factory):
    """How many workers, and what each came to, by case."""
    workers = request.param
    folder = tmp_path_factory.mktemp("job")
    reports = [folder / f"report-{index}" for index in range(workers)]
    with Job(folder, [CHILD, f"workers {workers}"], worker=workers) as job:
        for index, report in enumerate(reports):
            job.start("worker", index, {"report": str(report)})
        job.all_end_well()
    return workers, [json.loads(report.read_text()) for report in reports]


@pytest.mark.samples("2-fit", "2-tape", "2-native")
@pytest.mark.parametrize("way", ["fit", "tape", "native"])
def test_workers_together_are_one_device(job, way):
    workers, outcomes = job
    (case,) = [case for case in CASES[f"workers {workers}"] if case.way == way]
    if way == "fit":
        expected = by_keras(case)
    else:
        expected = by_hand(case, workers, outcomes[0][str(case)]["seeds"])
    for index, outcome in enumerate(outcomes):
        found = outcome[str(case)]
        check_same(found, expected)
        if way != "fit":
            assert found["seen"] == [expected["seen"][index]]
            assert found["classes"] == (EPOCHS * np.bincount(Y)).tolist()
