"""Five workers, more than exchange directly: all name the one that is stuck or killed, near it or not."""

import re
import signal
import time
from pathlib import Path

import pytest

from jobs import DEADLINE, SOON, Job
from muster.cluster import Task
from muster.cluster.roster._roster import EXIT_PEER_LOST

pytestmark = [pytest.mark.alone, pytest.mark.processes]

CHILD = Path(__file__).with_name("bad_job_child.py")
WORKERS = 5


@pytest.fixture
def job(tmp_path):
    with Job(tmp_path / "job", [CHILD], worker=WORKERS) as job:
        yield job


def start(job, index, **options):
    return job.start("worker", index, {"model_dir": str(job.folder / "model"), **options})


@pytest.mark.slow
def test_all_name_the_one_that_is_stuck(job):
    tasks = [
        start(job, index, step_timeout=8.0, **{"slow_hook": 1000.0} if index == 3 else {})
        for index in range(WORKERS)
    ]
    codes = [task.code() for task in tasks]
    assert 1 in codes
    assert set(codes) <= {1, EXIT_PEER_LOST}
    for task in tasks:
        assert task.told.culprit == Task("worker", 3), task.log
    for code, task in zip(codes, tasks, strict=True):
        if code == 1:
            assert re.search(
                r"MissingPeerError: worker \d has waited \d+ s for worker 3, ", task.last_line
            ), task.log


def test_all_end_when_one_is_killed(job):
    tasks = [start(job, index, steps=10**6) for index in range(WORKERS)]
    deadline = time.monotonic() + DEADLINE
    while "step 3\n" not in tasks[0].log:
        assert tasks[0].process.poll() is None, tasks[0].log
        assert time.monotonic() < deadline, tasks[0].log
        time.sleep(0.05)
    tasks[2].process.kill()
    assert tasks[2].code() == -signal.SIGKILL
    for task in (*tasks[:2], *tasks[3:]):
        assert task.code(SOON) == EXIT_PEER_LOST, task.log
        assert task.told.culprit == Task("worker", 2), task.log
