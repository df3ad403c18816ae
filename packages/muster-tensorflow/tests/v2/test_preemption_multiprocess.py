"""A training that is told to end saves, and goes on at the next step when it is started again."""

import json
import signal
import time
from pathlib import Path

import pytest

from jobs import DEADLINE, Job
from muster.checkpoint import read_note

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("preemption_child.py")


def start(folder, strategy, attempt, *, steps):
    """A job that has begun, and where its workers report."""
    workers = 2 if strategy == "workers" else 1
    job = Job(folder / f"job-{attempt}", [CHILD], worker=workers)
    reports = [folder / f"report-{attempt}-{index}" for index in range(workers)]
    for index, report in enumerate(reports):
        options = {
            "strategy": strategy,
            "directory": str(folder / "checkpoints"),
            "steps": steps,
            "report": str(report),
            "reached": str(folder / f"reached-{index}"),
        }
        flags = "--xla_force_host_platform_device_count=2" if strategy == "mirrored" else ""
        job.start("worker", index, options, {"XLA_FLAGS": flags})
    return job, reports


@pytest.mark.parametrize("strategy", ["default", "mirrored", "workers"])
def test_sigterm_to_one_worker(tmp_path, strategy):
    job, reports = start(tmp_path, strategy, 0, steps=None)
    with job:
        deadline = time.monotonic() + DEADLINE
        while not (tmp_path / "reached-0").exists():
            assert time.monotonic() < deadline, job.tasks[0].log
            time.sleep(0.01)
        job.tasks[-1].process.send_signal(signal.SIGTERM)
        assert [task.code() for task in job.tasks] == [143] * len(reports), job.tasks[0].log
    assert not any(report.exists() for report in reports)
    assert len(list((tmp_path / "checkpoints").glob("ckpt-*"))) == 1
    assert not read_note(tmp_path / "checkpoints").ended  # who evaluates waits for the restart

    job, reports = start(tmp_path, strategy, 1, steps=3)
    with job:
        job.all_end_well()
    found = [json.loads(report.read_text()) for report in reports]
    assert found == found[:1] * len(found)
    assert found[0]["start"] >= 5
    # Every call counted once, those before the restart with those after it.
    assert found[0]["counter"] == found[0]["calls"] == found[0]["start"] + 3
