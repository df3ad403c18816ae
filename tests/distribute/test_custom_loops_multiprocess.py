"""Custom training loops in several processes."""

import json
from pathlib import Path

import numpy as np
import pytest
from test_custom_loops import BATCH, train

from jobs import Job
from muster.distribute import get_strategy

CHILD = Path(__file__).with_name("loop_child.py")


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_together_are_one_device(tmp_path, workers):
    examples = 20 * BATCH + 7  # the last batch cannot be shared
    reports = [tmp_path / f"report-{index}" for index in range(workers)]
    with Job(tmp_path / "job", [CHILD], worker=workers) as job:
        for index, report in enumerate(reports):
            job.start("worker", index, {"report": str(report), "examples": examples})
        job.all_end_well()
    losses, accuracy, weights = train(get_strategy(), "adam", examples)
    for index, report in enumerate(reports):
        told = json.loads(report.read_text())
        # The rows that workers cannot share count as the first one's.
        assert told["own"] == 20 * BATCH // workers + 7 * (index == 0)
        assert told["total"] == examples
        np.testing.assert_allclose(told["losses"], losses, atol=1e-5)
        assert told["accuracy"] == pytest.approx(accuracy, abs=1e-7)
        for weight, same in zip(told["weights"], weights, strict=True):
            np.testing.assert_allclose(weight, same, rtol=1e-4, atol=1e-6)
